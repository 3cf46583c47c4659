"""Agenda: simulated time. What is due is done in order of time, and of what is due at one moment, first come first."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Agenda:
    """``now`` is the simulated time in seconds. Nothing here waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0

    def clock(self) -> float:
        """As a function."""
        return self.now

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Do ``action`` at ``when_s``, or at once if that is past."""
        self._made += 1
        heappush(self._due, (max(when_s, self.now), self._made, action))

    def run(self) -> None:
        """Until nothing is due any more."""
        due = self._due
        while due:
            self.now, _, action = heappop(due)
            action()
