"""How programs of Debian packages come to be here: scripts/debian.sh, with an `apt-get` that this test plays."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "debian.sh"
#: Knows the package only once it has read lists of its own.
APT_GET = """#!/bin/sh
lists=$(printf '%s\\n' "$@" | sed -n 's/^Dir::State::Lists=//p')
case "$*" in
*update*) touch "$lists/read" ;;
*) test -e "${lists:-.}/read" && cp "$ARCHIVE"/*.deb . ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="only Debian has dpkg-deb")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """In which apt has one package, `hello`, and no lists."""
    control = tmp_path / "hello" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text("Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: greets\n")
    (tmp_path / "hello" / "greeting").write_text("hello")
    archive, bin_ = tmp_path / "archive", tmp_path / "bin"
    archive.mkdir()
    subprocess.run(["dpkg-deb", "--build", tmp_path / "hello", archive], check=True, capture_output=True)
    bin_.mkdir()
    (bin_ / "apt-get").write_text(APT_GET)
    (bin_ / "apt-get").chmod(0o755)
    return {"PATH": f"{bin_}:{os.environ['PATH']}", "ARCHIVE": str(archive)}


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_package_is_unpacked(tmp_path: Path, environ: dict[str, str], is_absolute: bool) -> None:
    """Into a folder below where `make` runs, like .venv/debian, or anywhere; and nothing else stays there."""
    folder = tmp_path / "made" / "debian"
    (tmp_path / "made").mkdir()
    told = folder if is_absolute else folder.relative_to(tmp_path)
    subprocess.run([SCRIPT, told, "hello"], env=environ, cwd=tmp_path, check=True, capture_output=True)

    assert [path.name for path in folder.iterdir()] == ["greeting"]
    assert (folder / "greeting").read_text() == "hello"
