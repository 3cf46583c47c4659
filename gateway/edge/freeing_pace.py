"""FreeingPace: how fast places have been freeing, for a guess at when there will be one.

It is looked at only when somebody finds no place, and reads a count that is kept anyway: what fits costs nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LEAST_S = 1
MOST_S = 60

_WINDOW_S = 10.0


class _Look(NamedTuple):
    at_s: float
    freed: int


class FreeingPace:
    """Compares the count of freed places with what it was some seconds ago: between one window and two."""

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._older = self._newer = _Look(-math.inf, 0)

    def look(self, freed: int, now: float) -> None:
        """Note how many places have been freed since the start. Call it whenever somebody finds none."""
        age_s = now - self._newer.at_s
        if age_s >= _WINDOW_S:
            fresh = _Look(now, freed)
            # After a time in which all found a place, how long ago that was says nothing of how fast places free.
            self._older, self._newer = (self._newer if age_s < 2 * _WINDOW_S else fresh), fresh

    def wait_s(self, places: int, freed: int, now: float) -> int:
        """When about so many more will have been freed, in whole seconds from 1 to 60; 1 where nothing is known."""
        seen_s = now - self._older.at_s
        if not math.isfinite(seen_s):
            return LEAST_S
        guess_s = places * seen_s / max(1, freed - self._older.freed)
        return max(LEAST_S, min(MOST_S, math.ceil(guess_s)))
