"""Where the public traces are, which do not ship: in ``../shared/traces`` beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "traces"


def path(name: str) -> Path:
    """The file of this name; skips the test where it is absent."""
    file = _FOLDER / name
    if not file.is_file():
        pytest.skip(f"the public trace {name} is not here; docs/routing.md says where it comes from")
    return file
