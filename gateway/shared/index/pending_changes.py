"""PendingChanges: what happened to one set since it was last written, the last word on each block counting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Batch(NamedTuple):
    """To be written in this order. ``stored`` and ``removed`` are disjoint."""

    cleared: bool
    stored: set[int]
    removed: set[int]


class PendingChanges:
    """Never more than what the set had and what it is to have: changes of a block replace each other."""

    def __init__(self) -> None:
        self._cleared = False
        self._stored: set[int] = set()
        self._removed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._cleared or self._stored or self._removed)

    def __len__(self) -> int:
        return len(self._stored) + len(self._removed)

    def apply(self, stored: Iterable[int], removed: Iterable[int]) -> None:
        """``removed`` counts after ``stored``."""
        stored, removed = set(stored), set(removed)
        self._removed -= stored
        self._stored |= stored
        self._stored -= removed
        self._removed |= removed

    def clear(self) -> None:
        """Nothing is left of what was there."""
        self._cleared = True
        self._stored.clear()
        self._removed.clear()

    def take(self) -> Batch:
        """All of it, which is then no longer pending."""
        batch = Batch(self._cleared, self._stored, self._removed)
        self._cleared, self._stored, self._removed = False, set(), set()
        return batch

    def put_back(self, batch: Batch) -> None:
        """``batch`` was not, or not surely, written: what is pending comes on top of it."""
        if self._cleared:
            return
        self._cleared = batch.cleared
        self._stored, newer = set(batch.stored), self._stored
        self._removed, gone = set(batch.removed), self._removed
        self.apply(newer, ())
        self.apply((), gone)
