"""Counted: a dataclass of counts, of which two are added field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Self


@dataclass(slots=True)
class Counted:
    """The base of dataclasses whose fields are numbers and Counters, all of them."""

    def add(self, other: Self) -> None:
        """Count what ``other`` counts, too."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, each.name, mine + theirs)
