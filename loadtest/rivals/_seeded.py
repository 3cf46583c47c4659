"""Seeded: what most rivals have in common beside their formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from loadtest.rivals._types import RivalRequest, View


@dataclass(slots=True, kw_only=True)
class Seeded:
    """Ties fall by a seed; ends and departures change nothing, unless a rival says otherwise."""

    seed: int = 0
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def ended(self, request: RivalRequest, view: View) -> None:
        """Nothing is remembered of a request."""

    def left(self, number: int) -> None:
        """Nor of a replica."""
