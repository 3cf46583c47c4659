"""DualMap: two replicas for each prefix, and the better of them for each request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from loadtest.rivals._choosing import least
from loadtest.rivals._hash_ring import HashRing
from loadtest.rivals._prefill import PrefillTimes, uncached_tokens
from loadtest.rivals._prefix_keys import PrefixKeys
from loadtest.rivals._promised import PromisedWork
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class DualMap(Seeded):
    """Yuan et al., ICLR 2026 (arXiv 2602.06502).

        two candidates: the prompt's prefix on two independent hash rings
        the one with the longer match, if its expected TTFT is within the SLO; else the one with the lower TTFT

    TTFT is that of :class:`~loadtest.rivals.mooncake.MooncakeConductor`, with the engines' true rates, which flatters
    it. ``slo_s`` is the operator's; the paper adapts the length of the prefix to how hot it is: here it is the shortest
    one with which at most 2/N of the last ``window`` requests begin, as much as two of N replicas can serve.
    ``placement`` says where replicas lie on the rings, the same for every gateway.

    Simplified: what was sent is not moved to the other candidate (its "hotspot-aware rebalancing"), for a gateway
    cannot take a request back from a vLLM replica.
    """

    reads_events: ClassVar[bool] = True

    slo_s: float = 2.0
    window: int = 1000
    virtual_nodes: int = 160
    placement: int = 0
    times: PrefillTimes = field(default_factory=PrefillTimes)
    _rings: tuple[HashRing, HashRing] = field(init=False, repr=False)
    _keys: PrefixKeys = field(init=False, repr=False)
    _promised: PromisedWork = field(init=False, repr=False, default_factory=PromisedWork)

    def __post_init__(self) -> None:
        Seeded.__post_init__(self)
        first, second = 2 * self.placement, 2 * self.placement + 1
        self._rings = HashRing(self.virtual_nodes, first), HashRing(self.virtual_nodes, second)
        self._keys = PrefixKeys(self.window)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        two = self._candidates(request, views)
        longest = max(view.cached_tokens for view in two)
        holders = [view for view in two if view.cached_tokens == longest]
        view = least(holders, lambda view: self._ttft_s(request, view), self._random)
        if self._ttft_s(request, view) > self.slo_s:
            view = least(two, lambda view: self._ttft_s(request, view), self._random)
        self._promised.add(view, self.times.seconds(request, view), request.now)
        return Pick(view, uncached_tokens(request, view.cached_tokens))

    def left(self, number: int) -> None:
        self._promised.forget(number)

    def _candidates(self, request: RivalRequest, views: Sequence[View]) -> Sequence[View]:
        """Two different ones, unless there is only one. A prompt of less than a block has a key of its own."""
        by_number = {view.number: view for view in views}
        key = f"block {self._keys.key(request.blocks, 2 / len(views))}" if request.blocks else f"{request.number}"
        first = next(self._rings[0].following(key, by_number))
        others = (number for number in self._rings[1].following(key, by_number) if number != first)
        return [by_number[number] for number in (first, next(others, first))]

    def _ttft_s(self, request: RivalRequest, view: View) -> float:
        return self._promised.seconds(view, request.now) + self.times.seconds(request, view)


RIVALS: dict[str, type[Rival]] = {"dualmap": DualMap}
