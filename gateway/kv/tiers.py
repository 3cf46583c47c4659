"""The three tiers of KV memory, and how many tokens of a prompt each of them spares."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Tier(IntEnum):
    """L0: the replica's GPU. L1: its host memory (LMCache). L2: storage shared by all replicas."""

    L0 = 0
    L1 = 1
    L2 = 2


class TierTokens(NamedTuple):
    """Prefix lengths in tokens, each counted from token 0; ``None`` where nothing is known of that tier.

    ``l0``: prefix in L0. ``a1``: prefix in L1 alone. ``a2``: prefix over L1 and L2 together (LMCache looks up
    from token 0). What a replica spares is the longest of them; :meth:`split` says which tier serves what.
    """

    l0: int | None = None
    a1: int | None = None
    a2: int | None = None

    @property
    def usable(self) -> int:
        return max(self.l0 or 0, self.a1 or 0, self.a2 or 0)

    def split(self) -> tuple[int, int, int]:
        """Disjoint tokens ``(from L0, from L1, from L2)``; their sum is :attr:`usable`."""
        l0, a1, a2 = self
        l0 = l0 or 0
        if not a1 and not a2:
            return l0, 0, 0
        a1, a2 = a1 or 0, a2 or 0
        return l0, max(0, a1 - l0), max(0, a2 - max(l0, a1))
