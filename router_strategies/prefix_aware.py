"""The replica with the longest known prefix, as long as the queue before it costs less than the prefix spares.

Needs no speeds, no metrics and no events: it counts tokens, and works on what the gateway itself has sent where.

    score = tokens queued there + weight * requests in flight there + bound * tokens it must compute
    weight = request_tokens + context_share * tokens of this prompt

A prefix that several requests in flight share may be copied: the tokens that another replica must compute beyond the
holder's are divided by 1 + hot_gain for each further one. The least score wins, ties at random. So a holder is left
when its queue is longer than ``bound`` times what it spares, sooner where a prefix is hot, and its load is its own
affair: that of another replica takes no request from a holder that is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._load import least_of
from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


@dataclass(slots=True)
class PrefixAware(Strategy):
    """``bound``: queued tokens that are accepted for one token spared. ``request_tokens``: what a request in flight
    weighs besides its uncached prompt, in tokens; ``context_share``: the part of the prompt's length that is added to
    that, for requests in flight hold KV memory. ``hot_gain``: discount for each further request in flight that shares
    the prefix; 0 turns it off. ``seed`` makes random ties repeatable.
    """

    bound: float = 3.0
    request_tokens: float = 64.0
    context_share: float = 0.06
    hot_gain: float = 0.2
    seed: int | None = None
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.bound, self.request_tokens, self.context_share, self.hot_gain) < 0:
            raise ValueError("bound, request_tokens, context_share and hot_gain must not be negative")
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        chosen = least_of(candidates, self._scores(request, candidates), self._random)
        return Choice(chosen, _reason(chosen, candidates))

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        weight = self._request_weight(request)
        return [
            Cost(
                (score,),
                {
                    "queued_tokens": candidate.inflight_tokens,
                    "requests_tokens": weight * candidate.inflight,
                    "missing_tokens": max(0.0, request.prompt_tokens - _believed(candidate)),
                },
            )
            for score, candidate in zip(self._scores(request, candidates), candidates)
        ]

    def _scores(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[float]:
        least, discount = self._hot_discount(request, candidates)
        bound, weight, prompt = self.bound, self._request_weight(request), request.prompt_tokens
        scores = []
        for candidate in candidates:
            held = candidate.expected_tokens if candidate.trust == 1.0 else _believed(candidate)
            missing = prompt - held
            if missing > least:
                missing = least + (missing - least) / discount
            queued = candidate.inflight_tokens + weight * candidate.inflight
            scores.append((queued + bound * missing) / candidate.speed)
        return scores

    def _request_weight(self, request: RouteRequest) -> float:
        """Those in flight are taken to be as long as this one: what they hold is not known in tokens."""
        return self.request_tokens + self.context_share * request.prompt_tokens

    def _hot_discount(self, request: RouteRequest, candidates: Sequence[Candidate]) -> tuple[int, float]:
        """Tokens that the holder of the longest prefix must compute, and by what is divided what others must beyond."""
        longest = max([candidate.expected_tokens for candidate in candidates])
        sharing = max([candidate.sharing for candidate in candidates if candidate.expected_tokens == longest])
        discount = 1.0 + self.hot_gain * (sharing - 1) if sharing > 1 else 1.0
        return request.prompt_tokens - longest, discount


def _believed(candidate: Candidate) -> float:
    """Tokens that it holds, of those only events tell of as many as they are trusted."""
    confirmed = candidate.l0_tokens + candidate.l1_tokens + candidate.l2_tokens
    return candidate.expected_tokens if candidate.expected_tokens > confirmed else confirmed * candidate.trust


def _reason(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    expected = [candidate.expected_tokens for candidate in candidates]
    longest = max(expected)
    if chosen.expected_tokens < longest:
        return "spill"
    return "prefix" if longest > min(expected) else "least_loaded"


STRATEGY: type[Strategy] = PrefixAware
