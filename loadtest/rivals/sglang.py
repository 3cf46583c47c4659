"""SGLang's router and its descendants: a match above a threshold wins, unless loads differ too much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._choosing import fewest_requests, least, pick
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View

_TREE_TOKENS = 2**26 // 4  # 2^26 characters, four a token


@dataclass(slots=True)
class CacheAware(Seeded):
    """Where loads differ too much the shortest queue; else the longest match, if it is long enough; else the idlest.

        differ  where  max - min > balance_abs_threshold  and  max > balance_rel_threshold * min   (requests in flight)
        enough  where  matched / prompt > cache_threshold

    Source: ``cache_aware``, the default of vLLM Router 0.1.17 (src/policies/cache_aware.rs) and of sglang-router
    0.3.2, with the defaults of both. Without a match the released code of 0.1.17 takes the least load; its comment
    and SGLang's first releases take the smallest tree: ``cold="smallest_tree"``. Simplified: blocks in place of
    characters, the tree's bound in tokens of four characters and kept at once rather than every 120 s, ties and the
    choice among several holders at random.
    """

    reads_events: ClassVar[bool] = False

    cache_threshold: float = 0.3
    balance_abs_threshold: int = 64
    balance_rel_threshold: float = 1.5
    max_tree_tokens: int = _TREE_TOKENS  # of each replica
    cold: str = "least_loaded"
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)

    def __post_init__(self) -> None:
        Seeded.__post_init__(self)
        if self.cold not in ("least_loaded", "smallest_tree"):
            raise ValueError(f"cold is least_loaded or smallest_tree, not {self.cold!r}")

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        view = self._chosen(request, views, matched)
        most = self.max_tree_tokens // request.block_tokens
        self._tree.insert(view.number, request.blocks, request.now, most=most)
        return pick(request, view, matched[view.number])

    def left(self, number: int) -> None:
        self._tree.forget(number)

    def _chosen(self, request: RivalRequest, views: Sequence[View], matched: Mapping[int, int]) -> View:
        if self._differ(views):
            return fewest_requests(views, self._random)
        holders = long_enough(request, views, matched, self.cache_threshold)
        if holders:
            return self._random.choice(holders)
        if self.cold == "smallest_tree":
            return least(views, lambda view: self._tree.size(view.number), self._random)
        return fewest_requests(views, self._random)

    def _differ(self, views: Sequence[View]) -> bool:
        loads = [view.inflight for view in views]
        most, fewest = max(loads), min(loads)
        return most - fewest > self.balance_abs_threshold and most > self.balance_rel_threshold * fewest


@dataclass(slots=True)
class CacheAwarePerReplica(Seeded):
    """The least loaded of those with the longest match, if that is long enough and it is not far above the mean.

        far above  where  requests > balance_rel_threshold * mean  and  requests > mean + margin
        margin = min(balance_abs_threshold, max(4, 2 * sqrt(mean)));  far above, or no match: the fewest requests

    Source: ``cache_aware`` of smg 1.13.0 (the help of ``--balance-abs-threshold``, 2026-10; model_gateway/src/
    policies/cache_aware.rs at 56ad2018): the answer to the fault that one busy replica turned affinity off for all.
    Its triggers on KV use, decay and temperature are off by default, and so left out. The natural swing of a count
    is taken as that of a Poisson number. Simplified as :class:`CacheAware` is.
    """

    reads_events: ClassVar[bool] = False

    cache_threshold: float = 0.3
    balance_abs_threshold: int = 64
    balance_rel_threshold: float = 1.5
    max_tree_tokens: int = _TREE_TOKENS  # of each replica
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        holders = long_enough(request, views, matched, self.cache_threshold)
        view = fewest_requests(holders or views, self._random)
        if holders and self._far_above(view, views):
            view = fewest_requests(views, self._random)
        most = self.max_tree_tokens // request.block_tokens
        self._tree.insert(view.number, request.blocks, request.now, most=most)
        return pick(request, view, matched[view.number])

    def left(self, number: int) -> None:
        self._tree.forget(number)

    def _far_above(self, holder: View, views: Sequence[View]) -> bool:
        mean = sum(view.inflight for view in views) / len(views)
        margin = min(self.balance_abs_threshold, max(4.0, 2 * sqrt(mean)))
        return holder.inflight > self.balance_rel_threshold * mean and holder.inflight > mean + margin


def long_enough(
    request: RivalRequest, views: Sequence[View], matched: Mapping[int, int], threshold: float
) -> list[View]:
    """Those with the longest match, where that is more than ``threshold`` of the prompt."""
    longest = max(matched.values())
    if longest * request.block_tokens <= threshold * request.prompt_tokens:
        return []
    return [view for view in views if matched[view.number] == longest]


RIVALS: dict[str, type[Rival]] = {
    "cache_aware": CacheAware,
    "cache_aware_per_worker": CacheAwarePerReplica,
}
