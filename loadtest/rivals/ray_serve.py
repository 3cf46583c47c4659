"""Ray Serve LLM: the best match while queues are alike, the emptiest cache for what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._choosing import fewest_requests, pick
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class PrefixCacheAffinity(Seeded):
    """The shortest queue of the candidates, which depend on loads and the match.

        max - min > imbalanced_threshold:             any two
        else matched / prompt >= match_rate_threshold: those with the longest match
        else:                                          those with the smallest tree

    Source: ``PrefixCacheAffinityRouter`` (python/ray/llm/_internal/serve/request_router/prefix_aware/
    prefix_aware_router.py at 1eec25d0). ``imbalanced_threshold`` is 10 there and in the documentation; later
    releases have it off (infinite), which is worse. Its tree forgets nothing by default. Simplified: blocks in place
    of characters; several candidates of one size as by a queue that is known exactly.
    """

    reads_events: ClassVar[bool] = False

    imbalanced_threshold: float = 10.0  # requests
    match_rate_threshold: float = 0.1
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        view = fewest_requests(self._candidates(request, views, matched), self._random)
        self._tree.insert(view.number, request.blocks, request.now)
        return pick(request, view, matched[view.number])

    def left(self, number: int) -> None:
        self._tree.forget(number)

    def _candidates(self, request: RivalRequest, views: Sequence[View], matched: Mapping[int, int]) -> Sequence[View]:
        loads = [view.inflight for view in views]
        if max(loads) - min(loads) > self.imbalanced_threshold:
            return self._random.sample(views, 2) if len(views) > 2 else views
        longest = max(matched.values())
        if longest * request.block_tokens >= self.match_rate_threshold * request.prompt_tokens:
            return [view for view in views if matched[view.number] == longest]
        sizes = {view.number: self._tree.size(view.number) for view in views}
        smallest = min(sizes.values())
        return [view for view in views if sizes[view.number] == smallest]


RIVALS: dict[str, type[Rival]] = {"ray_prefix_aware": PrefixCacheAffinity}
