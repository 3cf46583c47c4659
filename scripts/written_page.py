"""WrittenPage: a page of the documentation with tables that are written from the code, each between two marks.

A script for each page says which; a test says whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


class WrittenPage:
    """``page``, ``script``: paths below the project's folder. ``tables``: what makes each, by the name in its marks."""

    def __init__(self, page: str, script: str, tables: Mapping[str, Callable[[], str]]) -> None:
        self._page = page
        self._script = script
        self._tables = tables

    def __repr__(self) -> str:
        return f"<WrittenPage {self._page}>"

    def text(self) -> str:
        """As it is."""
        return (_ROOT / self._page).read_text()

    def fresh(self) -> str:
        """As it should be. Raises ``ValueError`` where a table's marks are not there, or there twice."""
        text = self.text()
        for name, table in self._tables.items():
            begin, end = f"<!-- {name}: written by `python {self._script}` -->\n", f"<!-- end of {name} -->"
            before, rest = text.split(begin)
            _, after = rest.split(end)
            text = f"{before}{begin}{table()}\n{end}{after}"
        return text

    def main(self) -> None:
        """Write it; with --check on the command line only say, also by the exit status, whether it is current."""
        fresh = self.fresh()
        if "--check" in sys.argv:
            sys.exit(f"{self._page}: run python {self._script}" if fresh != self.text() else 0)
        (_ROOT / self._page).write_text(fresh)
