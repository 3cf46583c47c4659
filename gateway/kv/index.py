"""PrefixIndex: which replica holds which block, in which tier. The protocol that every index keeps to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier, TierTokens

#: Own hashes of a prompt's full blocks in order, by block size in tokens.
Chains = Mapping[int, Sequence[int]]


class PrefixIndex(Protocol):
    """Answers in tokens. A block is held or not; counting copies is the writer's business."""

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """How long a prefix of the chain each key holds. Keys the index does not know are absent."""
        ...

    def apply(self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        """``key`` owns ``stored``, and ``removed`` no longer. Idempotent. Unknown key: ignored."""
        ...

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        """``key`` holds nothing in ``tier`` any more."""
        ...

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Iterable[int]]) -> None:
        """``key`` is a new incarnation (or a new start of its writer) and holds exactly ``snapshot``."""
        ...

    def drop(self, key: ReplicaKey) -> None:
        """Forget ``key`` altogether."""
        ...
