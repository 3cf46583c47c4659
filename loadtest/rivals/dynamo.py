"""NVIDIA Dynamo's KV router: blocks to prefill plus blocks that decode, or their product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._active_blocks import ActiveBlocks
from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class Dynamo(Seeded):
    """ai-dynamo/dynamo 1.6.1 (2026), ``lib/kv-router/src/scheduling/selector/default.rs`` and its page of concepts.

        cost = prefill_load_scale * max(active prefill + prompt - overlap credit, 0) + decode blocks
               + active_request_weight * active requests, in blocks; the least wins, ties at random
        overlap credit = overlap_credit * decay * device + host_weight * host + disk_weight * storage
        decay = 1 / (1 + credit_decay * (active prefill above the least loaded one's) / prompt)

    Active prefill: what was not cached of prompts without a first token. Decode blocks: the distinct blocks of prompts
    in flight, this one's included. The defaults are those of 1.6.1.

    Simplified: temperature 0, no modelled decay of a prefill under way, no output blocks and no predicted cache entries
    (all of them its defaults); no queue in the router (off since 1.6); blocks are those of the trace.
    """

    reads_events: ClassVar[bool] = True

    overlap_credit: float = 1.0
    credit_decay: float = 0.0
    prefill_load_scale: float = 1.0
    active_request_weight: float = 0.0
    host_weight: float = 0.75
    disk_weight: float = 0.25
    _active: ActiveBlocks = field(init=False, repr=False, default_factory=ActiveBlocks)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        floor = min(view.pending_tokens for view in views)
        view = least(views, lambda view: self._cost(request, view, floor), self._random)
        self._active.add(view.number, request.blocks)
        cached = view.l0_tokens + self.host_weight * view.l1_tokens + self.disk_weight * view.l2_tokens
        return Pick(view, uncached_tokens(request, cached))

    def ended(self, request: RivalRequest, view: View) -> None:
        self._active.remove(view.number, request.blocks)

    def left(self, number: int) -> None:
        self._active.forget(number)

    def _cost(self, request: RivalRequest, view: View, floor: int) -> float:
        prefill_blocks = self._prefill_blocks(request, view, floor)
        decode_blocks = self._active.after(view.number, request.blocks)
        requests = self.active_request_weight * view.inflight
        return self.prefill_load_scale * prefill_blocks + decode_blocks + requests

    def _prefill_blocks(self, request: RivalRequest, view: View, floor: int) -> float:
        decay = 1.0 / (1.0 + self.credit_decay * (view.pending_tokens - floor) / request.prompt_tokens)
        credit = self.overlap_credit * decay * view.l0_tokens
        credit += self.host_weight * view.l1_tokens + self.disk_weight * view.l2_tokens
        return max(view.pending_tokens + request.prompt_tokens - credit, 0.0) / request.block_tokens


@dataclass(slots=True)
class DynamoLmetric(Dynamo):
    """The same router (1.6.1) with ``router_selection_policy=lmetric``; everything else as in :class:`Dynamo`.

    cost = max(active prefill + prompt - overlap credit, 0) * (decode blocks + 1)
    """

    def _cost(self, request: RivalRequest, view: View, floor: int) -> float:
        decode_blocks = self._active.after(view.number, request.blocks)
        return self._prefill_blocks(request, view, floor) * (decode_blocks + 1)


RIVALS: dict[str, type[Rival]] = {"dynamo": Dynamo, "dynamo_lmetric": DynamoLmetric}
