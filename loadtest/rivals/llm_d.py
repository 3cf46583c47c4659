"""llm-d's router (EPP): a weighted sum of scores, the highest wins.

Its predicted-latency scorer is not here: it needs a model that is trained while it serves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class LlmD(Seeded):
    """llm-d/llm-d-router (August 2026), ``pkg/epp/framework/plugins/scheduling/scorer``; its optimized baseline.

        score = 2 * queue + 2 * kv + 3 * prefix + 2 * no_hit_lru; the highest wins (max-score picker), ties at random
        queue = (longest - its) / (longest - shortest) of the queues that replicas report; 1 where all are equal
        kv = 1 - its KV use, as reported
        prefix = matched blocks / the prompt's; from KV events (precise), of which those in host memory count 0.8
        no_hit_lru = 0.5 for all if any replica has a hit; else from 1 (its last cold prompt is longest ago) to 0

    Simplified: speculative entries are off, as they are by default. Nothing tells llm-d of storage that all share.
    """

    reads_events: ClassVar[bool] = True

    queue_weight: float = 2.0
    kv_weight: float = 2.0
    prefix_weight: float = 3.0
    no_hit_lru_weight: float = 2.0
    host_credit: float = 0.8
    storage_credit: float = 0.0
    _cold: OrderedDict[int, None] = field(init=False, repr=False, default_factory=OrderedDict)  # longest ago first

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        matched = [self._matched(view) for view in views]
        is_cold = not any(matched)
        scores = self._load_scores(views)
        prompt_tokens = len(request.blocks) * request.block_tokens
        if is_cold:
            scores = [score + lru for score, lru in zip(scores, self._cold_scores(views))]
        elif prompt_tokens:
            scores = [score + self.prefix_weight * tokens / prompt_tokens for score, tokens in zip(scores, matched)]
        by_number = {view.number: score for view, score in zip(views, scores)}
        view = least(views, lambda view: -by_number[view.number], self._random)
        if is_cold:
            self._cold[view.number] = None
            self._cold.move_to_end(view.number)
        return Pick(view, uncached_tokens(request, self._matched(view)))

    def left(self, number: int) -> None:
        self._cold.pop(number, None)

    def _matched(self, view: View) -> float:
        return view.l0_tokens + self.host_credit * view.l1_tokens + self.storage_credit * view.l2_tokens

    def _load_scores(self, views: Sequence[View]) -> list[float]:
        queues = self._queue_scores(views)
        return [self.queue_weight * queue + self.kv_weight * (1 - view.kv_usage) for queue, view in zip(queues, views)]

    def _queue_scores(self, views: Sequence[View]) -> list[float]:
        lengths = [view.waiting for view in views]
        longest, shortest = max(lengths), min(lengths)
        if longest == shortest:
            return [1.0] * len(views)
        return [(longest - length) / (longest - shortest) for length in lengths]

    def _cold_scores(self, views: Sequence[View]) -> list[float]:
        """Those that never got a cold prompt come first, in their own order."""
        if len(views) == 1:
            return [self.no_hit_lru_weight]
        places = {number: place for place, number in enumerate(self._cold)}
        fresh = [view.number for view in views if view.number not in places]
        ranks = {number: rank for rank, number in enumerate(fresh)}
        ranks |= {number: len(fresh) + place for number, place in places.items()}
        steps = len(views) - 1
        return [self.no_hit_lru_weight * max(0.0, 1 - ranks[view.number] / steps) for view in views]


@dataclass(slots=True)
class LlmDActive(LlmD):
    """The same (August 2026) with ``active-request-scorer`` in place of the queue scorer, with the same weight.

    active = (most - its) / most of the requests in flight, as the router itself counts them; 1 where there are none
    """

    def _queue_scores(self, views: Sequence[View]) -> list[float]:
        busiest = max(view.inflight for view in views)
        return [1 - view.inflight / busiest if busiest else 1.0 for view in views]


RIVALS: dict[str, type[Rival]] = {"llm_d": LlmD, "llm_d_active": LlmDActive}
