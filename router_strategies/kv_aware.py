"""The replica where the first token costs the fleet the least seconds. The default.

    cost = W + (1 + g) * x + M

x: seconds of prefill and loading for what the replica lacks. W: seconds already promised there. M: a guard for its KV
memory. g weighs a cached token beyond its own seconds: each uncached token evicts another and makes a duplicate. A
prefix that several requests in flight share may be copied while the fleet has time: the seconds that another replica
would have to spend beyond the holder's are divided by 1 + hot_gain * time * (requests that share it - 1). ``time`` is 1
up to half of what the fleet can prefill and 0 at its limit. The least cost wins, ties at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from router_strategies._cost import memory_guard_seconds
from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


@dataclass(slots=True)
class KvAware(Strategy):
    """``cached_weight`` is g. ``hot_gain``: discount for each further request that shares the prefix, while the fleet
    has time; 0 turns it off. ``memory_guard`` scales M. ``seed`` makes random ties repeatable.
    """

    cached_weight: float = 2.0
    hot_gain: float = 0.2
    memory_guard: float = 1.0
    seed: int | None = None
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.cached_weight, self.hot_gain, self.memory_guard) < 0:
            raise ValueError("cached_weight, hot_gain and memory_guard must not be negative")
        self._random = Random(self.seed)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        holder = _holder(candidates)
        discount = self._hot_discount(request, holder)
        costs = [self._cost(c, holder.prefill_s, discount) for c in candidates]
        least = min(costs)
        if costs.count(least) == 1:
            chosen = candidates[costs.index(least)]
        else:
            chosen = self._random.choice([c for c, cost in zip(candidates, costs) if cost == least])
        return Choice(chosen, self._reason(chosen, holder, candidates))

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        holder = _holder(candidates)
        discount = self._hot_discount(request, holder)
        return [self._explained(candidate, holder.prefill_s, discount) for candidate in candidates]

    def _explained(self, candidate: Candidate, holder_s: float, discount: float) -> Cost:
        parts = {
            "promised_s": candidate.promised_s,
            "own_s": self._own_s(candidate, holder_s, discount),
            "memory_s": self._memory_s(candidate),
        }
        return Cost((self._cost(candidate, holder_s, discount),), parts)

    def _hot_discount(self, request: RouteRequest, holder: Candidate) -> float:
        if holder.sharing < 2:
            return 1.0
        time = min(1.0, max(0.0, 2.0 * (1.0 - request.utilisation)))
        return 1.0 + self.hot_gain * time * (holder.sharing - 1)

    def _cost(self, candidate: Candidate, holder_s: float, discount: float) -> float:
        cost_s = candidate.promised_s + self._own_s(candidate, holder_s, discount)
        return cost_s + self._memory_s(candidate) if candidate.kv_blocks_capacity else cost_s

    def _own_s(self, candidate: Candidate, holder_s: float, discount: float) -> float:
        own_s = candidate.prefill_s
        if discount > 1.0 and own_s > holder_s:
            own_s = holder_s + (own_s - holder_s) / discount
        return (1.0 + self.cached_weight) * own_s

    def _memory_s(self, candidate: Candidate) -> float:
        return self.memory_guard * memory_guard_seconds(
            candidate.kv_blocks_used, candidate.kv_blocks_needed, candidate.kv_blocks_capacity, candidate.decode_s
        )

    def _reason(self, chosen: Candidate, holder: Candidate, candidates: Sequence[Candidate]) -> str:
        longest = holder.expected_tokens
        if chosen.expected_tokens < longest:
            return "spill"
        for candidate in candidates:
            if candidate.expected_tokens < longest:
                return "prefix"
        return "cost"


def _holder(candidates: Sequence[Candidate]) -> Candidate:
    """The one with the longest prefix; of several the one where most requests in flight share it."""
    holder = candidates[0]
    for candidate in candidates:
        if candidate.expected_tokens < holder.expected_tokens:
            continue
        if candidate.expected_tokens > holder.expected_tokens or candidate.sharing > holder.sharing:
            holder = candidate
    return holder


STRATEGY: type[Strategy] = KvAware
