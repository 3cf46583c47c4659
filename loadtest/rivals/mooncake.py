"""Mooncake's conductor: where the first token is expected first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._prefill import PrefillTimes, uncached_tokens
from loadtest.rivals._promised import PromisedWork
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class MooncakeConductor(Seeded):
    """Qin et al., FAST'25 (arXiv 2407.00079), algorithm 1, for replicas that both prefill and decode.

        TTFT = T_queue + T_prefill(prompt, its prefix); the least wins, ties at random
        where the longest prefix anywhere is balancing_threshold times its own or more:
        TTFT = T_transfer(what it lacks of the longest) + T_queue + T_prefill(prompt, the longest prefix)

    T_queue: the expected prefill seconds of what was sent there and has no first token, less the time since the oldest
    of them began. The paper fits T_prefill to measurements; here the rates are the engines' true ones, which flatters
    it.

    Simplified: a vLLM replica cannot fetch from another, so there is no transfer unless ``transfer_tokens_s`` (tokens a
    second) is given; the paper gives no number for the threshold. Nothing is rejected for its SLO.
    """

    reads_events: ClassVar[bool] = True

    balancing_threshold: float = 2.0
    transfer_tokens_s: float = 0.0
    times: PrefillTimes = field(default_factory=PrefillTimes)
    _promised: PromisedWork = field(init=False, repr=False, default_factory=PromisedWork)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        holder = max(views, key=lambda view: view.cached_tokens)
        view = least(views, lambda view: self._ttft_s(request, view, holder), self._random)
        self._promised.add(view, self._own_s(request, view, holder), request.now)
        return Pick(view, uncached_tokens(request, view.cached_tokens))

    def left(self, number: int) -> None:
        self._promised.forget(number)

    def _ttft_s(self, request: RivalRequest, view: View, holder: View) -> float:
        return self._promised.seconds(view, request.now) + self._own_s(request, view, holder)

    def _own_s(self, request: RivalRequest, view: View, holder: View) -> float:
        best, own = holder.cached_tokens, view.cached_tokens
        if self.transfer_tokens_s and best > own and best >= self.balancing_threshold * own:
            return (best - own) / self.transfer_tokens_s + self.times.seconds(request, holder)
        return self.times.seconds(request, view)


RIVALS: dict[str, type[Rival]] = {"mooncake_conductor": MooncakeConductor}
