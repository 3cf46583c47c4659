"""The replica with the longest known prefix, as long as the queue before it costs less than the prefix spares.

Needs no speeds, no metrics and no events: it counts tokens, and works on what the gateway itself has sent where.

    score = tokens queued there + request_tokens * requests in flight there + bound * tokens it must compute

The least score wins, ties at random. A holder is left when its queue is longer than ``bound`` times what it spares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


@dataclass(slots=True)
class PrefixAware(Strategy):
    """``bound``: queued tokens that are accepted for one token spared. ``request_tokens``: what a request in flight
    weighs besides its uncached prompt. ``seed`` makes random ties repeatable.
    """

    bound: float = 3.0
    request_tokens: float = 32.0
    seed: int | None = None
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.bound < 0 or self.request_tokens < 0:
            raise ValueError("bound and request_tokens must not be negative")
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        scores = [self._score(request, c) for c in candidates]
        least = min(scores)
        chosen = self._random.choice([c for c, score in zip(candidates, scores) if score == least])
        return Choice(chosen, self._reason(chosen, candidates))

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        return [
            Cost(
                (self._score(request, candidate),),
                {"queued_tokens": self._queued(candidate), "missing_tokens": _missing(request, candidate)},
            )
            for candidate in candidates
        ]

    def _score(self, request: RouteRequest, candidate: Candidate) -> float:
        return (self._queued(candidate) + self.bound * _missing(request, candidate)) / candidate.speed

    def _queued(self, candidate: Candidate) -> float:
        return candidate.inflight_tokens + self.request_tokens * candidate.inflight

    def _reason(self, chosen: Candidate, candidates: Sequence[Candidate]) -> str:
        longest = max(c.expected_tokens for c in candidates)
        if chosen.expected_tokens < longest:
            return "spill"
        return "prefix" if longest > min(c.expected_tokens for c in candidates) else "least_loaded"


def _missing(request: RouteRequest, candidate: Candidate) -> int:
    return max(0, request.prompt_tokens - candidate.expected_tokens)


STRATEGY: type[Strategy] = PrefixAware
