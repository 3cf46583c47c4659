"""Write the table of docs/findings.md from the code; with --check only say whether it is current."""

from __future__ import annotations

from gateway.check.finding import KINDS
from scripts.written_page import WrittenPage


def table() -> str:
    """A row for each kind of finding."""
    rows = ["| finding | | what it says | what mends it |", "|---|---|---|---|"]
    for name, kind in KINDS.items():
        rows.append(f"| `{name}` | {kind.severity.name.lower()} | {kind.meaning} | {kind.mend} |")
    return "\n".join(rows)


PAGE = WrittenPage("docs/findings.md", "scripts/findings_table.py", {"findings": table})

if __name__ == "__main__":
    PAGE.main()
