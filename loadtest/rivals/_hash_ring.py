"""HashRing: consistent hashing: which replicas follow a key, so that few keys move when replicas come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import xxhash

from loadtest.rivals._seeded import Seeded


class HashRing:
    """``points``: places on the ring for each replica; ``placement`` says where, the same for every gateway."""

    def __init__(self, points: int, placement: int = 0) -> None:
        self._points = points
        self._placement = placement
        self._numbers: frozenset[int] = frozenset()
        self._ring: list[tuple[int, int]] = []

    def following(self, key: str, numbers: Collection[int]) -> Iterator[int]:
        """All of ``numbers``, each once, from ``key`` on."""
        if self._numbers != (wanted := frozenset(numbers)):
            self._numbers = wanted
            self._ring = sorted(point for number in wanted for point in self._places(number))
        seen: set[int] = set()
        start = bisect_left(self._ring, (xxhash.xxh64_intdigest(key.encode()),))
        for place in range(start, start + len(self._ring)):
            number = self._ring[place % len(self._ring)][1]
            if number not in seen:
                seen.add(number)
                yield number

    def _places(self, number: int) -> Iterator[tuple[int, int]]:
        for point in range(self._points):
            yield xxhash.xxh64_intdigest(f"{self._placement}/{number}/{point}".encode()), number


@dataclass(slots=True)
class OnRing(Seeded):
    """A rival with one ring. ``virtual_nodes``: places of each replica; ``placement`` says where."""

    virtual_nodes: int = 160
    placement: int = 0
    _ring: HashRing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        Seeded.__post_init__(self)
        self._ring = HashRing(self.virtual_nodes, self.placement)
