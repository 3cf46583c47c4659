"""vllm-router's kv_aware: tokens to compute, times requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class VllmRouterKvAware(Seeded):
    """vllm-project/router 0.1.17 (November 2026), ``src/policies/kv_aware.rs``.

        cost = (new prefill + active prefill) * (active requests + 1), in tokens; the least wins
        new prefill = input - device prefix - credit * the longest continuation in one lower tier, rounded up

    Credits: host 0.8, external storage 0.6. The block with the prompt's last token is never credited. Active ones are
    the router's own: prefill tokens until the first token, requests until their end.

    Simplified: temperature 0 (the default) only; no session affinity (off without a session header); storage is taken
    to hold what host memory holds; ties are random, where theirs go to the first.
    """

    reads_events: ClassVar[bool] = True

    host_credit: float = 0.8
    external_credit: float = 0.6

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        view = least(views, lambda view: self._cost(request, view), self._random)
        return Pick(view, self._new_tokens(request, view))

    def _cost(self, request: RivalRequest, view: View) -> float:
        return (self._new_tokens(request, view) + view.pending_tokens) * (view.inflight + 1)

    def _new_tokens(self, request: RivalRequest, view: View) -> int:
        return uncached_tokens(request, self._credited(request, view))

    def _credited(self, request: RivalRequest, view: View) -> float:
        whole_blocks = (request.prompt_tokens - 1) // request.block_tokens * request.block_tokens
        device = min(view.l0_tokens, whole_blocks)
        if view.l2_tokens:
            return device + (view.l1_tokens + view.l2_tokens) * self.external_credit
        return device + view.l1_tokens * self.host_credit


RIVALS: dict[str, type[Rival]] = {"vllm_router_kv_aware": VllmRouterKvAware}
