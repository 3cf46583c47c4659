"""KubeAI: consistent hashing of the prompt's beginning, with bounded loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from loadtest.rivals._choosing import pick
from loadtest.rivals._hash_ring import HashRing
from loadtest.rivals._types import Pick, Rival, RivalRequest, View


@dataclass(slots=True)
class Chwbl:
    """The first replica after the hash of the prompt's beginning that would stay within 125 % of the mean load.

        accepted where  requests + 1 <= load_factor * (requests of all + 1) / replicas;  where none is: the first

    Source: ``PrefixHash`` of KubeAI (internal/loadbalancer/balance_chwbl.go at 08e69e54; xxhash, 256 points a
    replica, the first 100 characters, meanLoadPercentage 125), after Mirrokni, Thorup and Zadimoghaddam, Consistent
    Hashing with Bounded Loads (arXiv 1608.01350). Simplified: 100 characters lie within the first block, whose id
    stands for them (``key_blocks`` is for longer beginnings); a prompt without a full block is known by its session.
    ``placement`` says where replicas lie on the ring; nothing is random, and ``seed`` is not used.
    """

    reads_events: ClassVar[bool] = False

    key_blocks: int = 1
    load_factor: float = 1.25
    virtual_nodes: int = 256
    placement: int = 0
    seed: int = 0
    _ring: HashRing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ring = HashRing(self.virtual_nodes, self.placement)

    def select(self, request: RivalRequest, views: Sequence[View]) -> Pick:
        by_number = {view.number: view for view in views}
        in_flight = sum(view.inflight for view in views)
        limit = self.load_factor * (in_flight + 1) / len(views)
        beginning = request.blocks[: self.key_blocks]
        key = str(beginning[-1]) if beginning else request.session
        following = (by_number[number] for number in self._ring.following(key, by_number))
        first = next(following)
        fitting = (view for view in chain((first,), following) if view.inflight + 1 <= limit)
        return pick(request, next(fitting, first))

    def ended(self, request: RivalRequest, view: View) -> None: ...

    def left(self, number: int) -> None: ...


RIVALS: dict[str, type[Rival]] = {"chwbl": Chwbl}
