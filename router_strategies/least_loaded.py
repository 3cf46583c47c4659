"""The replica with the least to do: promised prefill work, and a little for each request in flight.

    load = promised seconds + request_s * (requests in flight + 1) / speed

Knows load but no prefix. The least load wins, ties at random. Only the gateway's own counts are used: a replica that
reports nothing is not taken for idle, nor for full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._load import REQUEST_S, least_of, load_s
from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


@dataclass(slots=True)
class LeastLoaded(Strategy):
    """``request_s``: seconds that a request in flight weighs besides its prefill. ``seed`` makes random ties
    repeatable.
    """

    request_s: float = REQUEST_S
    seed: int | None = None
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.request_s < 0:
            raise ValueError("request_s must not be negative")
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        loads = [load_s(candidate, self.request_s) for candidate in candidates]
        return Choice(least_of(candidates, loads, self._random), "least_loaded")

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        return [
            Cost(
                (load_s(candidate, self.request_s),),
                {"promised_s": candidate.promised_s, "requests": candidate.inflight / candidate.speed},
            )
            for candidate in candidates
        ]


STRATEGY: type[Strategy] = LeastLoaded
