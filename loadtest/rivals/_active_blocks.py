"""ActiveBlocks: the distinct blocks of the prompts in flight at each replica."""

from __future__ import annotations

from collections.abc import Sequence


class ActiveBlocks:
    """A block that several requests at a replica share counts once, and goes with the last of them."""

    def __init__(self) -> None:
        self._uses: dict[int, dict[int, int]] = {}  # by replica: block -> requests

    def after(self, number: int, blocks: Sequence[int]) -> int:
        """How many there would be with a prompt of these blocks."""
        uses = self._uses.get(number, {})
        return len(uses) + len(blocks) - _shared(uses, blocks)

    def add(self, number: int, blocks: Sequence[int]) -> None:
        uses = self._uses.setdefault(number, {})
        for block in blocks:
            uses[block] = uses.get(block, 0) + 1

    def remove(self, number: int, blocks: Sequence[int]) -> None:
        """Nothing happens to blocks that are not there: the replica may have been forgotten since."""
        uses = self._uses.get(number, {})
        for block in blocks:
            if (count := uses.get(block, 0)) > 1:
                uses[block] = count - 1
            elif count:
                del uses[block]

    def forget(self, number: int) -> None:
        """The replica is gone."""
        self._uses.pop(number, None)


def _shared(uses: dict[int, int], blocks: Sequence[int]) -> int:
    """How many of the blocks are in use: always the first ones, for each stands for all that comes before it."""
    low, high = 0, len(blocks)
    while low < high:
        middle = (low + high) // 2
        if blocks[middle] in uses:
            low = middle + 1
        else:
            high = middle
    return low
