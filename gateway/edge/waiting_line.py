"""WaitingLine: who waits, first come first served within a priority. Knows nothing of what they wait for."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class WaitingLine(Generic[T]):
    """Items by priority, higher first. Everything takes the same time however many wait."""

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        # An OrderedDict loses an item anywhere without leaving a hole, which neither a deque nor a dict does.
        self._levels: dict[int, OrderedDict[T, None]] = {}
        self._priorities: list[int] = []  # of those who wait, ascending

    def __bool__(self) -> bool:
        return bool(self._priorities)

    @property
    def top(self) -> int:
        """The highest priority that waits. Raises ``IndexError`` if nobody does."""
        return self._priorities[-1]

    def push(self, item: T, priority: int) -> None:
        """Last of its priority."""
        if priority not in self._levels:
            self._levels[priority] = OrderedDict()
            insort(self._priorities, priority)
        self._levels[priority][item] = None

    def remove(self, item: T, priority: int) -> None:
        """Wherever it stands. Raises ``KeyError`` if it does not wait."""
        level = self._levels[priority]
        del level[item]
        if not level:
            del self._levels[priority]
            self._priorities.remove(priority)

    def first(self) -> T | None:
        """Whose turn it is."""
        return next(iter(self._levels[self._priorities[-1]])) if self._priorities else None

    def heads(self) -> list[T]:
        """Who has waited longest, of each priority."""
        return [next(iter(level)) for level in self._levels.values()]
