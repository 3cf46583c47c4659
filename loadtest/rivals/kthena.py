"""kthena's router: a sum of whole-number scores from 0 to 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class Kthena(Seeded):
    """volcano-sh/kthena (August 2026), ``pkg/kthena-router/scheduler``; the documented set-up for KV events.

        score = least_request + kvcache_aware, each a whole number; the highest wins, ties at random
        least_request = 100 * (most - its) / most of running + 100 * waiting, as replicas report them
        kvcache_aware = 100 * matched blocks / the prompt's, of at most its first 128 blocks of 16 tokens
        replicas where 10 or more wait are left out

    Simplified: blocks are chained (theirs are not: the same 16 tokens match anywhere). Where all replicas are left out,
    theirs answers with an error; here all of them stay in. GPU blocks only, which is what its side process records.
    """

    reads_events: ClassVar[bool] = True

    least_request_weight: int = 1
    kvcache_weight: int = 1
    max_waiting: int = 10
    max_match_tokens: int = 2048

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        views = [view for view in views if view.waiting < self.max_waiting] or views
        heaviest = max(_load(view) for view in views)
        view = least(views, lambda view: -self._score(request, view, heaviest), self._random)
        return Pick(view, uncached_tokens(request, view.l0_tokens))

    def _score(self, request: RivalRequest, view: View, heaviest: int) -> int:
        considered = min(request.prompt_tokens, self.max_match_tokens)
        cached = 100 * min(view.l0_tokens, considered) // considered
        free = 100 * (heaviest - _load(view)) // heaviest if heaviest else 100
        return self.least_request_weight * free + self.kvcache_weight * cached


def _load(view: View) -> int:
    return view.running + 100 * view.waiting


RIVALS: dict[str, type[Rival]] = {"kthena": Kthena}
