"""LowerTier: host memory of a simulated replica, or storage that all of them share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class LowerTier:
    """Written through: whatever a GPU computes is kept here, too. Without capacity it is not there."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stored: list[int] = []
        self.removed: list[int] = []
        self._blocks: OrderedDict[int, None] = OrderedDict()  # the least recently used first

    def __contains__(self, block: int) -> bool:
        return block in self._blocks

    def keep(self, blocks: Iterable[int]) -> None:
        """They were computed, or used."""
        if not self.capacity:
            return
        kept = self._blocks
        for block in blocks:
            if block not in kept:
                self.stored.append(block)
                kept[block] = None
            kept.move_to_end(block)
        while len(kept) > self.capacity:
            self.removed.append(kept.popitem(last=False)[0])


def usable(tiers: Sequence[LowerTier], blocks: Sequence[int], most: int) -> int:
    """How many of the first ``most`` blocks are in one of ``tiers``: it is looked up from the first one on."""
    for place in range(most):
        if not any(blocks[place] in tier for tier in tiers):
            return place
    return most
