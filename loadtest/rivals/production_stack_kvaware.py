"""production-stack's kvaware: the longest match, whatever the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from loadtest.rivals._choosing import fewest_requests, least
from loadtest.rivals._prefill import uncached_tokens
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class ProductionStackKvAware(Seeded):
    """vllm-project/production-stack (August 2026), ``src/vllm_router/routers/routing_logic.py``.

        the longest match, if at most kv_aware_threshold tokens are uncached there; else the least loaded
        for prompts of at most the threshold: any match, and the least loaded only where nobody has one

    Simplified: its LMCache controller names the first replica that stored a chunk, here the longest match is found, of
    several at random; the least loaded has the fewest requests in flight, where theirs had the fewest arrivals in a
    minute. Both flatter it. No session key.
    """

    reads_events: ClassVar[bool] = True

    kv_aware_threshold: int = 2000

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        longest = max(view.cached_tokens for view in views)
        if longest and longest >= request.prompt_tokens - self.kv_aware_threshold:
            view = least(views, lambda view: -view.cached_tokens, self._random)
        else:
            view = fewest_requests(views, self._random)
        return Pick(view, uncached_tokens(request, view.cached_tokens))


RIVALS: dict[str, type[Rival]] = {"production_stack_kvaware": ProductionStackKvAware}
