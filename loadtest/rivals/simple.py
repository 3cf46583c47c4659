"""The rules that every load balancer knows: they look at no prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from loadtest.rivals._choosing import fewest_requests, pick
from loadtest.rivals._seeded import Seeded
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class RoundRobin:
    """Each replica in its turn.

    Source: the default of vLLM production-stack (``--routing-logic roundrobin``, 2026-08), of Kubernetes services in
    IPVS mode, of nginx. ``seed`` says who begins.
    """

    reads_events: ClassVar[bool] = False

    seed: int = 0
    _turn: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._turn = Random(self.seed).randrange(1 << 16)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        self._turn += 1
        return pick(request, views[self._turn % len(views)])

    def ended(self, request: RivalRequest, view: View) -> None: ...

    def left(self, number: int) -> None: ...


@dataclass(slots=True)
class AnyOfThem(Seeded):
    """One at random. Source: kube-proxy in iptables mode; ``random`` of vLLM Router 0.1.17, smg 1.13 and AIBrix."""

    reads_events: ClassVar[bool] = False

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        return pick(request, self._random.choice(views))


@dataclass(slots=True)
class FewestRequests(Seeded):
    """The fewest requests in flight, ties at random.

    Source: ``LeastLoad`` of KubeAI (internal/loadbalancer/balance_least_load.go), ``least-request`` of AIBrix
    (2026-08), ``least_conn`` of nginx. Counts requests, so that 100,000 tokens weigh as much as ten.
    """

    reads_events: ClassVar[bool] = False

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        return pick(request, fewest_requests(views, self._random))


@dataclass(slots=True)
class PowerOfTwo(Seeded):
    """Of two at random the one with fewer requests in flight.

    Source: M. Mitzenmacher, The Power of Two Choices in Randomized Load Balancing (IEEE TPDS 12(10), 2001); the
    default of Ray Serve; ``power_of_two`` of vLLM Router 0.1.17 and smg 1.13. It exists to spare looking at all
    counts, and to stand counts that are old: here they are exact, so that it can only lose to the fewest requests.
    """

    reads_events: ClassVar[bool] = False

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        two = self._random.sample(views, 2) if len(views) > 2 else views
        return pick(request, fewest_requests(two, self._random))


RIVALS: dict[str, type[Rival]] = {
    "least_loaded": FewestRequests,
    "power_of_two": PowerOfTwo,
    "random": AnyOfThem,
    "round_robin": RoundRobin,
}
