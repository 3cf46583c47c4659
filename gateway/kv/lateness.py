"""Lateness: how late a publisher's batches come, whatever the clocks of the two hosts say.

The lag of a batch is our wall clock minus the publisher's, so it holds the difference of the two clocks, which may be
many seconds. What is above the smallest lag seen lately is delay.
"""

from __future__ import annotations

import math

#: The smallest lag is that of one to two windows. A clock that is set forward looks like a delay for as long; one that
#: is set back is noticed at once, as is a stream that gets faster.
WINDOW_S = 300.0


class Lateness:
    """Of one publisher's live batches: one that is replayed is as old as it is."""

    def __init__(self) -> None:
        self._began = -math.inf  # when the window began, by our wall clock
        self._floor = math.inf  # smallest lag in this window, seconds
        self._floor_before = math.inf  # and in the one before

    def __repr__(self) -> str:
        return f"<Lateness above {self._least:.3f} s>"

    def note(self, ts: float, now: float) -> float:
        """How late a batch came, in seconds: it is of ``ts`` by its publisher's wall clock, and here at ``now``."""
        lag = now - ts
        if not 0 <= now - self._began < WINDOW_S:
            self._floor_before = self._floor
            self._floor = math.inf
            self._began = now
        self._floor = min(self._floor, lag)
        return lag - self._least

    @property
    def _least(self) -> float:
        return min(self._floor, self._floor_before)
