"""Write the table of docs/findings.md from the code; with --check only say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.check.finding import KINDS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "findings.md"
BEGIN, END = "<!-- findings: written by `python scripts/findings_table.py` -->\n", "<!-- end of findings -->"


def table() -> str:
    """A row for each kind of finding."""
    rows = ["| finding | | what it says | what mends it |", "|---|---|---|---|"]
    for name, kind in KINDS.items():
        rows.append(f"| `{name}` | {kind.severity.name.lower()} | {kind.meaning} | {kind.mend} |")
    return "\n".join(rows)


def with_table(text: str) -> str:
    """The page's text with a fresh table."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}\n{END}{after}"


if __name__ == "__main__":
    current = PAGE.read_text()
    fresh = with_table(current)
    if "--check" in sys.argv:
        sys.exit("docs/findings.md: run python scripts/findings_table.py" if fresh != current else 0)
    PAGE.write_text(fresh)
