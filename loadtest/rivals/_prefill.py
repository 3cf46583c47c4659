"""Prefill: what a replica must compute of a prompt, and how long that takes there."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from loadtest.replica.scheduler import Speeds
from loadtest.rivals._types import RivalRequest, View


def uncached_tokens(request: RivalRequest, cached_tokens: float) -> int:
    """Rounded up; an engine always computes a prompt's last token, so that there is something to begin with."""
    usable = min(cached_tokens, request.prompt_tokens - 1)
    return ceil(request.prompt_tokens - usable)


@dataclass(frozen=True, slots=True)
class PrefillTimes:
    """True rates of the replay's engines, which a rival of another fleet would have to measure."""

    speeds: Speeds = field(default_factory=Speeds)
    l1_tokens_s: float = 120_000.0  # load rates
    l2_tokens_s: float = 34_000.0

    def seconds(self, request: RivalRequest, view: View) -> float:
        """Of the request's prefill at an idle replica, with the loads of what is not on its GPU."""
        uncached = uncached_tokens(request, view.cached_tokens)
        compute_s = self.speeds.prefill_s(request.prompt_tokens - uncached, uncached)
        load_s = view.l1_tokens / self.l1_tokens_s + view.l2_tokens / self.l2_tokens_s
        return compute_s + self.speeds.step_s + load_s
