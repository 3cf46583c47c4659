"""Write deploy/constraints.txt anew: the newest version of every package in the image that pyproject.toml allows.

Run it with the Python of the image (3.11), and build the image again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "deploy" / "constraints.txt"
HEAD = "# What the image is built of. Written by `python scripts/image_constraints.py`, checked by tests/deploy.\n"


def image_requirement(dockerfile: str) -> str:
    """What the build stage makes wheels of: ``.[extra,...]``."""
    match = re.search(r'pip wheel .*"(\.\[[a-z,]+\])"', dockerfile)
    if match is None:
        raise SystemExit('the Dockerfile has no `pip wheel ... ".[extras]"`')
    return match[1]


def resolved(requirement: str) -> list[str]:
    """``name==version`` of each package that pip would install, by name; but not our own."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    answer = subprocess.run([*command, requirement], cwd=ROOT, check=True, capture_output=True, text=True)
    packages = [item["metadata"] for item in json.loads(answer.stdout)["install"]]
    others = [package for package in packages if package["name"] != "prefixway"]
    return sorted(f"{canonical(package['name'])}=={package['version']}" for package in others)


def canonical(name: str) -> str:
    """As PyPI compares names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    FILE.write_text(HEAD + "\n".join(resolved(image_requirement((ROOT / "Dockerfile").read_text()))) + "\n")
