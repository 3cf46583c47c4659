"""Table: rows of words with a header; as text for a terminal, and the same ones for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """The first column and those that hold words stand left, numbers right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        columns = list(zip(self.header, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(
                word.ljust(width) if self.is_words(number) else word.rjust(width)
                for number, (word, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [self.header, *self.rows]
        ]
        return "\n".join([self.title, *lines])

    def is_words(self, column: int) -> bool:
        """Whether a column holds anything but numbers."""
        return column == 0 or any(row[column][:1].isalpha() for row in self.rows)
