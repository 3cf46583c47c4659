"""LMetric: what must be computed, times the batch it joins; in the two ways in which its paper can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class LmetricB(Seeded):
    """Zhang et al., arXiv 2603.15202 (March 2026), as llm-d's ``lmetric-scorer`` has it (August 2026).

        cost = this request's uncached tokens * (requests in flight + 1); the least wins, ties at random

    It has no parameters. Neither the paper nor llm-d tells tiers apart: tokens of lower tiers are credited as
    vllm-router, which has the same product, credits them.
    """

    reads_events: ClassVar[bool] = True

    host_credit: float = 0.8
    storage_credit: float = 0.6

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        view = least(views, lambda view: self._cost(request, view), self._random)
        return Pick(view, self._new_tokens(request, view))

    def _cost(self, request: RivalRequest, view: View) -> float:
        return self._new_tokens(request, view) * (view.inflight + 1)

    def _new_tokens(self, request: RivalRequest, view: View) -> int:
        credited = view.l0_tokens + self.host_credit * view.l1_tokens + self.storage_credit * view.l2_tokens
        return uncached_tokens(request, credited)


@dataclass(slots=True)
class LmetricA(LmetricB):
    """arXiv 2603.15202 again, where new prefill tokens are also those of the requests that wait there.

    cost = (this request's + waiting requests' uncached tokens) * (requests in flight + 1)
    """

    def _cost(self, request: RivalRequest, view: View) -> float:
        return (self._new_tokens(request, view) + view.pending_tokens) * (view.inflight + 1)


RIVALS: dict[str, type[Rival]] = {"lmetric_a": LmetricA, "lmetric_b": LmetricB}
