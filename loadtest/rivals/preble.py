"""Preble: exploit a prefix where more of the prompt is cached than not, else explore by cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import ClassVar

from loadtest.replica.scheduler import Speeds
from loadtest.rivals._block_tree import BlockTree
from loadtest.rivals._choosing import least, pick
from loadtest.rivals._recent_work import RecentWork
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class Preble(Seeded):
    """E2: the least L of those with the longest match, where that is more than half; else the least L + M + P of all.

        L  seconds of prefill given within window_s, and of decoding of what is in flight
        M  seconds to compute again what would be evicted, each block times the part of the requests that used it
        P  seconds of this prompt's prefill
        an exploited replica that is the busiest, by more than rebalance times the idlest, gives up to the idlest

    Source: Srivatsa et al., Preble: Efficient Distributed Prompt Scheduling for LLM Serving (arXiv 2407.00023,
    section 3) and its code (multi_node/global_scheduler_with_time.py: window 3 min, 45 tokens of 0.15 s until others
    are learned, load threshold 15); AIBrix's port (``prefix-cache-preble``) has the same window and one half, and no
    M and P. Simplified: the engine's true speeds in place of its regressions, which flatters it; evictions by a list
    of least recent use in place of what the replicas tell; copies of a prefix whose first tokens come ever later,
    and the pairing of prefill with decoding, are left out.
    """

    reads_events: ClassVar[bool] = False

    window_s: float = 180.0
    rebalance: float = 15.0
    decode_tokens: float = 45.0  # of each request
    decode_token_s: float = 0.15
    speeds: Speeds = field(default_factory=Speeds)
    _tree: BlockTree = field(default_factory=BlockTree, init=False, repr=False)
    _work: RecentWork = field(init=False, repr=False)

    def __post_init__(self) -> None:
        Seeded.__post_init__(self)
        self._work = RecentWork(self.window_s)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        self._work.move_to(request.now)
        matched = self._tree.matched(request.blocks, (view.number for view in views))
        longest = max(matched.values())
        if longest * request.block_tokens > request.prompt_tokens / 2:
            view = self._exploited([view for view in views if matched[view.number] == longest], views)
        else:
            view = self._explored(request, views, matched)
        chosen = pick(request, view, matched[view.number])
        self._remember(request, chosen)
        return chosen

    def left(self, number: int) -> None:
        self._tree.forget(number)
        self._work.forget(number)

    def _exploited(self, holders: Sequence[View], views: Sequence[View]) -> View:
        chosen = least(holders, self._load_s, self._random)
        loads = [self._load_s(view) for view in views]
        busiest, idlest = max(loads), min(loads)
        if self._load_s(chosen) == busiest and busiest > self.rebalance * idlest > 0:
            return least(views, self._load_s, self._random)
        return chosen

    def _explored(self, request: RivalRequest, views: Sequence[View], matched: Mapping[int, int]) -> View:
        """Evictions take long to price and cost nothing at least: left out where L + P is too much already."""
        lowest = float("inf")
        ties: list[View] = []
        for own_s, view in sorted(((self._own_s(request, view, matched), view) for view in views), key=itemgetter(0)):
            if own_s > lowest:
                break
            cost_s = own_s + self._evicted_s(request, view, matched[view.number])
            if cost_s < lowest:
                lowest, ties = cost_s, []
            if cost_s == lowest:
                ties.append(view)
        return self._random.choice(ties)

    def _own_s(self, request: RivalRequest, view: View, matched: Mapping[int, int]) -> float:
        return self._load_s(view) + self._prefill_s(request, pick(request, view, matched[view.number]))

    def _evicted_s(self, request: RivalRequest, view: View, cached: int) -> float:
        excess = self._tree.size(view.number) + len(request.blocks) - cached - view.capacity_blocks
        if excess <= 0 or not view.capacity_blocks:
            return 0.0
        uses = self._work.hit_rate(view.number, self._tree.oldest(view.number, excess))
        return uses * self.speeds.prefill_s(0, request.block_tokens)

    def _load_s(self, view: View) -> float:
        return self._work.seconds(view.number) + view.inflight * self.decode_tokens * self.decode_token_s

    def _prefill_s(self, request: RivalRequest, chosen: Pick) -> float:
        return self.speeds.prefill_s(request.prompt_tokens - chosen.prefill_tokens, chosen.prefill_tokens)

    def _remember(self, request: RivalRequest, chosen: Pick) -> None:
        view = chosen.view
        most = view.capacity_blocks or float("inf")
        self._work.give(view.number, self._prefill_s(request, chosen), request.blocks, request.now)
        self._tree.insert(view.number, request.blocks, request.now, most=most)


RIVALS: dict[str, type[Rival]] = {"preble": Preble}
