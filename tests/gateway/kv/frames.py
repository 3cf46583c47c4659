"""Captured payloads by name; see ``tests/data/events/README.md``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "data" / "events"


def names(pattern: str = "*") -> list[str]:
    """All payloads whose name matches a glob pattern."""
    return sorted(path.stem for path in _FOLDER.glob(f"{pattern}.hex"))


def payload(name: str) -> bytes:
    """One payload as it came."""
    return bytes.fromhex((_FOLDER / f"{name}.hex").read_text())


def decoded(name: str) -> Any:
    """What it decodes to, as JSON (hashes that are bytes appear as the capture wrote them)."""
    return json.loads((_FOLDER / f"{name}.json").read_text())["decoded"]
