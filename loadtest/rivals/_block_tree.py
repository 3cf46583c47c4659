"""BlockTree: which blocks a gateway believes to be where, from nothing but what it has sent there itself.

Equal block ids mean equal prefixes, so the tree needs no edges: a prompt is followed block by block for as long as
some replica has them. What was used last stays longest, and of one prompt the end goes before its beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice


class BlockTree:
    """Replicas are small numbers. ``ttl_s``: seconds since its last use after which a block is forgotten."""

    def __init__(self, *, ttl_s: float = float("inf")) -> None:
        self._ttl_s = ttl_s
        self._holders: dict[int, int] = {}  # block -> a bit for each replica
        self._held: dict[int, OrderedDict[int, float]] = {}  # replica -> block -> its last use, the oldest first

    def matched(self, blocks: Sequence[int], numbers: Iterable[int]) -> dict[int, int]:
        """Of each of ``numbers``: how many of the first ``blocks`` it has without a gap."""
        alive = 0
        for number in numbers:
            alive |= 1 << number
        matched: dict[int, int] = {}
        depth = 0
        for depth, block in enumerate(blocks):
            still = alive & self._holders.get(block, 0)
            if still != alive:
                _note(matched, alive ^ still, depth)
                alive = still
                if not alive:
                    return matched
        _note(matched, alive, depth + 1 if blocks else 0)
        return matched

    def insert(self, number: int, blocks: Sequence[int], now: float, *, most: float = float("inf")) -> None:
        """The replica got a prompt at ``now`` seconds; of all it keeps at most ``most`` blocks."""
        held = self._held.setdefault(number, OrderedDict())
        bit = 1 << number
        for block in reversed(blocks):
            if block in held:
                held.move_to_end(block)
            else:
                self._holders[block] = self._holders.get(block, 0) | bit
            held[block] = now
        while len(held) > most:
            self._drop(held.popitem(last=False)[0], bit)

    def expire(self, now: float) -> None:
        """Forget what was not used for too long."""
        last_use = now - self._ttl_s
        for number, held in self._held.items():
            while held and next(iter(held.values())) < last_use:
                self._drop(held.popitem(last=False)[0], 1 << number)

    def size(self, number: int) -> int:
        """Blocks that a replica is believed to have."""
        return len(self._held.get(number, ()))

    def oldest(self, number: int, count: int) -> Iterator[int]:
        """The blocks that would go first."""
        return islice(self._held.get(number, ()), count)

    def forget(self, number: int) -> None:
        """The replica is gone, and what it had."""
        for block in self._held.pop(number, ()):
            self._drop(block, 1 << number)

    def _drop(self, block: int, bit: int) -> None:
        left = self._holders[block] & ~bit
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]


def _note(matched: dict[int, int], bits: int, depth: int) -> None:
    while bits:
        lowest = bits & -bits
        matched[lowest.bit_length() - 1] = depth
        bits ^= lowest
