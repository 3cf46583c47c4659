"""vLLM production-stack: the longest match, and its successor that weighs it against load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._choosing import fewest_requests, least, pick
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class PrefixAware(Seeded):
    """One at random of those that were sent the longest beginning of this prompt; without a match any of all.

    Source: ``PrefixAwareRouter`` (src/vllm_router/routers/routing_logic.py and prefix/hashtrie.py, 2026-08): no term
    for load, nothing is ever forgotten, ``--prefix-min-match-length`` 0. Simplified: blocks in place of chunks of 128
    characters; below the least length the fewest requests in flight, not the fewest arrivals of the last minute.
    """

    reads_events: ClassVar[bool] = False

    min_match_tokens: int = 0
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        longest = max(matched.values())
        if longest * request.block_tokens < self.min_match_tokens:
            view = fewest_requests(views, self._random)
        else:
            view = self._random.choice([view for view in views if matched[view.number] == longest])
        self._tree.insert(view.number, request.blocks, request.now)
        return pick(request, view, matched[view.number])

    def left(self, number: int) -> None:
        self._tree.forget(number)


@dataclass(slots=True)
class LoadAware(Seeded):
    """The part of the prompt that is cached, less how much more than the mean is in flight.

        score = cached / prompt - beta * (requests - mean) / max(1, mean);  nothing cached anywhere: fewest requests

    Source: ``LoadAwareRouter`` (src/vllm_router/routers/routing_logic.py, pull request 1035, 2026-08; beta 1.0).
    It asks LMCache's controller what is cached; here that is as exact as KV events are. Simplified: ties at random,
    where the original takes the first by URL; where nothing is cached the fewest requests in flight, where the
    original hashes the session or takes the fewest arrivals of the last minute.
    """

    reads_events: ClassVar[bool] = True

    beta: float = 1.0

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        if not any(view.cached_tokens for view in views):
            return pick(request, fewest_requests(views, self._random))
        mean = sum(view.inflight for view in views) / len(views)

        def loss(view: View) -> float:
            cached = min(view.cached_tokens, request.prompt_tokens) / max(1, request.prompt_tokens)
            return self.beta * (view.inflight - mean) / max(1.0, mean) - cached

        view = least(views, loss, self._random)
        return Pick(view, max(0, request.prompt_tokens - view.cached_tokens))


RIVALS: dict[str, type[Rival]] = {
    "production_stack_loadaware": LoadAware,
    "production_stack_prefixaware": PrefixAware,
}
