"""The replica with the least promised prefill work, then the fewest requests in flight.

Knows load but no prefix. Equal loads are broken at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._types import Candidate, Choice, RouteRequest, Strategy


@dataclass(slots=True)
class LeastLoaded(Strategy):
    """``seed`` makes random ties repeatable."""

    seed: int | None = None
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        least = min((c.promised_s, c.inflight / c.speed) for c in candidates)
        ties = [c for c in candidates if (c.promised_s, c.inflight / c.speed) == least]
        return Choice(self._random.choice(ties), "least_loaded")


STRATEGY: type[Strategy] = LeastLoaded
