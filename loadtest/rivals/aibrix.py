"""AIBrix: the best match among replicas that are not much busier than the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import ClassVar

from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._choosing import fewest_requests, least, pick
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class PrefixCache(Seeded):
    """The best match with at most the mean and ``deviations`` standard deviations of requests; else the fewest.

        matches count only of the least loaded  where  max - min >= imbalance_gap  and  max > factor * (mean + 1)

    Of equal matches, in whole percent of the prompt, the one with fewer requests.

    Source: ``prefix-cache`` of AIBrix (pkg/plugins/gateway/algorithms/prefix_cache.go at 01de8a51; factor 2.0, gap 8,
    one deviation; its table of 200,000 blocks of 128 characters for 20 minutes). Earlier versions of 2026 knew no
    factor: ``imbalance_factor=0``. Simplified: blocks in place of characters; the table's bound, in tokens of four
    characters, holds for each replica rather than for all together.
    """

    reads_events: ClassVar[bool] = False

    imbalance_factor: float = 2.0
    imbalance_gap: int = 8  # requests
    deviations: float = 1.0
    max_table_tokens: int = 200_000 * 128 // 4
    ttl_s: float = 1_200.0
    _tree: BlockTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        Seeded.__post_init__(self)
        self._tree = BlockTree(ttl_s=self.ttl_s)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        self._tree.expire(request.now)
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        view = self._holder(request, views, matched) or fewest_requests(views, self._random)
        most = self.max_table_tokens // request.block_tokens
        self._tree.insert(view.number, request.blocks, request.now, most=most)
        return pick(request, view, matched[view.number])

    def left(self, number: int) -> None:
        self._tree.forget(number)

    def _holder(self, request: RivalRequest, views: Sequence[View], matched: Mapping[int, int]) -> View | None:
        loads = [float(view.inflight) for view in views]
        mean = fmean(loads)
        limit = mean + self.deviations * sqrt(fmean([(load - mean) ** 2 for load in loads]))
        if self._is_imbalanced(loads):
            limit = min(loads)
        holders = [view for view in views if matched[view.number] and view.inflight <= limit]
        if not holders:
            return None
        percent = {view.number: matched[view.number] * 100 // len(request.blocks) for view in holders}
        best = max(percent.values())
        return least([v for v in holders if percent[v.number] == best], lambda view: view.inflight, self._random)

    def _is_imbalanced(self, loads: Sequence[float]) -> bool:
        most = max(loads)
        return most > self.imbalance_factor * (fmean(loads) + 1) and most - min(loads) >= self.imbalance_gap


RIVALS: dict[str, type[Rival]] = {"aibrix_prefix_cache": PrefixCache}
