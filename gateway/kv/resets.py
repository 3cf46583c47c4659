"""Resets: the two ways to hear that an engine emptied its GPU cache, told apart from two resets.

Its publisher tells of it with the engine's next step, which may be hours away; somebody may notice it otherwise, before
that or a little later. What tells of one reset the second time must take nothing away that was stored since. Where one
of the two never comes, as events of a reset that nobody noticed, the other of a later reset must not be taken for it.
Pure state, told the time.
"""

from __future__ import annotations

import math

#: A notice that comes so soon after an event is of the same reset: probes look every few seconds.
PAIRED_S = 5.0


class Resets:
    """Of one engine process. Times are seconds on any clock."""

    __slots__ = ("_awaited", "_told_s")

    def __init__(self) -> None:
        self._awaited = False  # noticed, and no event told of it yet
        self._told_s = -math.inf  # when an event told of one that nobody had noticed

    def __repr__(self) -> str:
        return f"<Resets {'awaiting an event' if self._awaited else f'told at {self._told_s:.1f}'}>"

    def told(self, now: float) -> None:
        """An event told of one: live, for it must be of about now."""
        if self._awaited:
            self._awaited = False
        else:
            self._told_s = now

    def noticed(self, now: float) -> bool:
        """Somebody saw one; whether no event has told of it."""
        if 0 <= now - self._told_s <= PAIRED_S:
            self._told_s = -math.inf
            return False
        self._awaited = True
        return True
