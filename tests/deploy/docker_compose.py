"""The real Docker Compose, as far as it needs no engine: it reads files. The machine's own, or what make unpacked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_UNPACKED = Path(sys.prefix) / "compose" / "docker-compose"


def config(file: Path, environ: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    """What it makes of ``file``, every profile included; or what it says is wrong.

    Skips the test where there is none.
    """
    command = [*_program(), "--file", str(file), "--profile", "*", "config", "--format", "json"]
    given = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ}
    ran = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    return (json.loads(ran.stdout), "") if ran.returncode == 0 else ({}, ran.stderr)


def _program() -> list[str]:
    if _UNPACKED.exists():
        return [str(_UNPACKED)]
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], check=False, capture_output=True)
        if asked.returncode == 0:
            return ["docker", "compose"]
    pytest.skip("no Docker Compose: make test unpacks one where the machine is a Linux x86-64")
