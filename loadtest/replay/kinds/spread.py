"""Spread: how a length or a time is spread, told by its quantiles."""

from __future__ import annotations

from bisect import bisect_right
from random import Random


class Spread:
    """``quantiles``: part of all draws (ascending from 0 to 1) to the value (above 0) that they stay below.

    Between two quantiles the logarithm is even, which suits what has a long tail.
    """

    def __init__(self, quantiles: dict[float, float]) -> None:
        self._parts = list(quantiles)
        self._values = list(quantiles.values())

    def draw(self, rng: Random) -> float:
        """A value at random."""
        part = rng.random()
        upper = bisect_right(self._parts, part)
        low, high = self._values[upper - 1], self._values[upper]
        within = (part - self._parts[upper - 1]) / (self._parts[upper] - self._parts[upper - 1])
        return float(low * (high / low) ** within)

    def whole(self, rng: Random) -> int:
        """A whole number at random, at least 1."""
        return max(1, round(self.draw(rng)))
