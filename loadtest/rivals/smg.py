"""smg (the continuation of SGLang's gateway): its rules that follow no tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import fewest_requests, least, pick
from loadtest.rivals._hash_ring import OnRing
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View

_FULLEST = 0.999  # the barrier's pole lies at 1


@dataclass(slots=True)
class LeastLoad(Seeded):
    """The least time until its queue is empty, with a barrier before full KV memory. Knows no prefix.

        score = tokens that wait for their prefill / throughput + kv_pressure_weight * k / (1 - k);  k: part in use

    Source: ``least_load`` of smg 1.13.0 (model_gateway/src/policies/least_load.rs at 11b1fe08; 0.15 s, 2,000 tokens a
    second). Simplified: theirs adds what was sent since the last poll to what replicas reported then; here the
    gateway's own count of prompts without a first token is both, and exact.
    """

    reads_events: ClassVar[bool] = False

    kv_pressure_weight: float = 0.15  # seconds
    throughput: float = 2000.0  # tokens per second

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        return pick(request, least(views, self._score, self._random))

    def _score(self, view: View) -> float:
        used = min(view.kv_usage, _FULLEST)
        return view.pending_tokens / self.throughput + self.kv_pressure_weight * used / (1 - used)


@dataclass(slots=True)
class PrefixHash(OnRing):
    """The home of the prompt's first tokens on a hash ring; where that is overloaded the least loaded one.

        overloaded  where  requests > max(load_factor * mean, mean + balance_abs_threshold);  mean: with this one

    Source: ``prefix_hash`` of smg 1.13.0 (model_gateway/src/policies/prefix_hash.rs at 44d2176e; 256 tokens, 1.25,
    10 requests). Simplified: 256 tokens lie within the first block, whose id stands for them; a prompt without a full
    block is known by its session. ``placement`` says where replicas lie on the ring.
    """

    reads_events: ClassVar[bool] = False

    load_factor: float = 1.25
    balance_abs_threshold: int = 10

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        by_number = {view.number: view for view in views}
        key = str(request.blocks[0]) if request.blocks else request.session
        home = by_number[next(self._ring.following(key, by_number))]
        mean = (sum(view.inflight for view in views) + 1) / len(views)
        limit = max(self.load_factor * mean, mean + self.balance_abs_threshold)
        if home.inflight <= limit:
            return pick(request, home)
        return pick(request, fewest_requests(views, self._random))


RIVALS: dict[str, type[Rival]] = {"smg_least_load": LeastLoad, "smg_prefix_hash": PrefixHash}
