"""PrefixIndex: which replica holds which block, in which tier. The protocol that every index keeps to.

It has two halves: IndexWriter, which is also what only passes on what it is told, and PrefixMatcher, which is all that
a request needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier, TierTokens

#: Own hashes of a prompt's full blocks in order, by block size in tokens.
Chains = Mapping[int, Sequence[int]]


class IndexUnavailable(Exception):
    """The index could not be asked in time. ``known`` is what the process itself knows, which has to do."""

    def __init__(self, known: Mapping[ReplicaKey, TierTokens]) -> None:
        super().__init__("the index is unavailable")
        self.known = known


class IndexWriter(Protocol):
    """A block is held or not; counting copies is the caller's business.

    The collections it is given it may keep and must not change.
    """

    def apply(self, key: ReplicaKey, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        """``key`` owns ``stored``, and ``removed`` no longer. Idempotent. Unknown key: ignored."""
        ...

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        """``key`` holds nothing in ``tier`` any more."""
        ...

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Collection[int]]) -> None:
        """``key`` is a new incarnation (or a new start of its writer) and holds exactly ``snapshot``."""
        ...

    def drop(self, key: ReplicaKey) -> None:
        """Forget ``key`` altogether."""
        ...


class PrefixMatcher(Protocol):
    """The half that is read. Answers in tokens."""

    def knows(self, keys: Collection[ReplicaKey]) -> bool:
        """Whether all there is to know of ``keys`` lies in this process: then :meth:`match_now` will do."""
        ...

    def match_now(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """As :meth:`match`, as far as this process itself knows."""
        ...

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """How long a prefix of the chain each key holds. Keys the index does not know are absent.

        Raises :class:`IndexUnavailable` where it lies elsewhere and cannot be asked.
        """
        ...


class PrefixIndex(IndexWriter, PrefixMatcher, Protocol):
    """Both halves."""
