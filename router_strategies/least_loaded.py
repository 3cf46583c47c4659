"""The replica with the least promised prefill work, then the fewest requests in flight.

Knows load but no prefix. Equal loads are broken at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


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
        least = min(map(_load, candidates))
        ties = [candidate for candidate in candidates if _load(candidate) == least]
        return Choice(self._random.choice(ties), "least_loaded")

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        return [Cost(load, dict(zip(("promised_s", "requests"), load))) for load in map(_load, candidates)]


def _load(candidate: Candidate) -> tuple[float, float]:
    return candidate.promised_s, candidate.inflight / candidate.speed


STRATEGY: type[Strategy] = LeastLoaded
