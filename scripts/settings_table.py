"""Write the README's table of settings from ``Settings``; with --check only say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.settings import Settings

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- settings: written by `python scripts/settings_table.py` -->\n", "<!-- end of settings -->"


def with_table(text: str) -> str:
    """The README's text with a fresh table."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{Settings.table()}\n{END}{after}"


if __name__ == "__main__":
    current = README.read_text()
    fresh = with_table(current)
    if "--check" in sys.argv:
        sys.exit("README.md: run python scripts/settings_table.py" if fresh != current else 0)
    README.write_text(fresh)
