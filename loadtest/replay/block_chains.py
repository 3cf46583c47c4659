"""BlockChains: the ids of one trace, made so that equal ids mean equal prefixes.

Mooncake's ids are so by themselves (each names a block and all before it). Other tools write files of the same form in
which an id names a block's own text, whatever stood before it: such an id gets another number for every prefix that it
follows.
"""

from __future__ import annotations

from collections.abc import Iterable

_NONE = -1


class BlockChains:
    """Numbers blocks from 0, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbered(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The chain in numbers: the same as before for as long as the ids are those of an earlier chain."""
        numbers = self._numbers
        chain = []
        parent = _NONE
        for block in ids:
            parent = numbers.setdefault((parent, block), len(numbers))
            chain.append(parent)
        return tuple(chain)
