"""Programs of Debian packages, which ``make test`` unpacks beside the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(sys.prefix) / "debian"


def program(path: str) -> Path:
    """One of them, like ``usr/bin/prometheus``; the test is skipped where it is not."""
    found = FOLDER / path
    if not found.exists():
        pytest.skip(f"no {path}: make test unpacks it where there is apt-get")
    return found
