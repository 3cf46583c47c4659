"""Applier: one replica's decoded events -> what the index says of it.

Joins the two halves: the resolvers, which know what a hash means, and the ownerships, which know what is
held. One Applier lives as long as its ReplicaKey, that is one engine process. Does not know sockets or
sequence numbers: batches come once and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.events import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch
from gateway.kv.index import IndexWriter
from gateway.kv.ownership import NOTHING_OWNED, Ownership, OwnershipState
from gateway.kv.resolver import NOTHING_RESOLVED, Chain, Resolver, ResolverState, UnresolvedError
from gateway.kv.tiers import Tier

#: vLLM's and LMCache's names for media, old and new, in upper case. No name: the GPU was all there was.
TIER_OF_MEDIUM: Mapping[str | None, Tier] = {
    None: Tier.L0,
    "GPU": Tier.L0,
    "CPU": Tier.L1,
    "STORAGE": Tier.L2,
    "FS": Tier.L2,
    "OBJ": Tier.L2,
    "DISK": Tier.L2,
}
#: Every how many single-block stores to look for holes all the way up; see :meth:`Ownership.credit`.
_THOROUGH_EVERY = 8

BlockSizeSeen = Callable[[Tier, int], None]


class SpaceState(NamedTuple):
    """What is known of one tier of a replica: its hash space, and what it holds there."""

    resolver: ResolverState = NOTHING_RESOLVED
    ownership: OwnershipState = NOTHING_OWNED


NOTHING_KNOWN = SpaceState()


class _Space:
    """One tier of the replica: its hash space and what it holds there."""

    __slots__ = ("known_block_size", "ownership", "resolver")

    def __init__(self, resolver: Resolver, ownership: Ownership) -> None:
        self.resolver = resolver
        self.ownership = ownership
        self.known_block_size = 0  # as the applier told others


class Applier:
    """The single writer of ``key``'s entries in ``index``, which begins ``key`` with what the applier owns.

    ``block_size_seen`` is called when a tier's block size becomes known or changes, in tokens. ``state``: what an
    applier under the same secret knew; tiers that are not in it begin with nothing.
    """

    def __init__(
        self,
        key: ReplicaKey,
        index: IndexWriter,
        *,
        secret: bytes,
        block_size_seen: BlockSizeSeen,
        max_blocks_per_tier: int,
        state: Mapping[Tier, SpaceState] | None = None,
    ) -> None:
        self.key = key
        self._index = index
        self._block_size_seen = block_size_seen
        self._spaces: dict[Tier, _Space] = {}
        for tier in Tier:
            known = NOTHING_KNOWN if state is None else state.get(tier, NOTHING_KNOWN)
            resolver = Resolver(secret, key.namespace, known.resolver)
            self._spaces[tier] = _Space(resolver, Ownership(max_blocks_per_tier, known.ownership))
            self._note_block_size(tier)
        self._stores = 0

    def __repr__(self) -> str:
        held = {tier.name: len(space.ownership) for tier, space in self._spaces.items()}
        return f"<Applier {self.key.replica_id} {held}>"

    def copies(self, tier: Tier, block: int) -> int:
        """How many copies of a block the replica holds at least, by own hash."""
        return self._spaces[tier].ownership.copies(block)

    def announced(self, tier: Tier, block: int) -> bool:
        """Whether a block, by own hash, was ever stored: held still or not."""
        return self._spaces[tier].resolver.knows(block)

    def owned(self) -> Mapping[Tier, list[int]]:
        """Own hashes of all blocks held, as a copy: what an index begins with. Tiers never told of are left out."""
        return {tier: space.ownership.blocks() for tier, space in self._spaces.items() if space.resolver.block_size}

    def export(self) -> Mapping[Tier, SpaceState]:
        """A copy of all that is known, for an applier elsewhere. Cheap; not for the middle of :meth:`apply`."""
        return {
            tier: SpaceState(space.resolver.export(), space.ownership.export()) for tier, space in self._spaces.items()
        }

    def apply(self, batch: EventBatch) -> Mapping[str, int]:
        """Bring the index up to ``batch``; answers how many of its events were dropped here, by reason."""
        dropped: dict[str, int] = {}
        for event in batch.events:
            try:
                if isinstance(event, BlockStored):
                    self._store(event)
                elif isinstance(event, BlockRemoved):
                    self._remove(event)
                else:
                    self._clear(event)
            except UnresolvedError as unresolved:
                reason = str(unresolved)
                dropped[reason] = dropped.get(reason, 0) + 1
        self._write()
        return dropped

    def lose(self) -> None:
        """Events are missing for good: nothing is held until one says so again. What hashes mean stays."""
        for space in self._spaces.values():
            space.ownership.clear()
        self._write()

    def _store(self, event: BlockStored) -> None:
        tier = self._tier(event.medium)
        if event.locality == "REMOTE" and tier is not Tier.L2:
            raise UnresolvedError("remote")
        space = self._spaces[tier]
        if not event.tokens and event.hashes:
            chain = space.resolver.adopt(event, self._spaces[Tier.L0].resolver)
        else:
            chain = space.resolver.resolve(event)
        self._note_block_size(tier)
        if tier is Tier.L0:
            self._own_in_gpu(space, chain)
        else:
            space.ownership.ensure(chain.blocks)  # a host or a storage keeps one copy, and evicts in any order

    def _note_block_size(self, tier: Tier) -> None:
        space = self._spaces[tier]
        if space.resolver.block_size != space.known_block_size:
            space.known_block_size = space.resolver.block_size
            self._block_size_seen(tier, space.known_block_size)

    def _own_in_gpu(self, space: _Space, chain: Chain) -> None:
        """vLLM keeps every copy it computes, and the whole prefix while something is stored on top of it.

        A store from the root may be a repeated announcement, which any client can ask for, instead of a copy.
        """
        if chain.rooted:
            space.ownership.ensure(chain.blocks)
            return
        space.ownership.add(chain.blocks)
        self._stores += 1
        deep = len(chain.blocks) > 1 or self._stores % _THOROUGH_EVERY == 0
        ancestors = space.resolver.ancestors(chain.parent)
        space.ownership.credit(ancestors, thorough=deep and not space.ownership.exact)

    def _remove(self, event: BlockRemoved) -> None:
        space = self._spaces[self._tier(event.medium)]
        if not space.resolver.follows_group(event.group):
            raise UnresolvedError("other_group")
        known = not event.hashes
        for hash_ in event.hashes:
            if (block := space.resolver.own(hash_)) is not None:
                space.ownership.remove(block)
                known = True
        if not known:
            raise UnresolvedError("unknown_block")

    def _clear(self, _: AllBlocksCleared) -> None:
        self._spaces[Tier.L0].ownership.clear()

    def _tier(self, medium: str | None) -> Tier:
        tier = TIER_OF_MEDIUM.get(medium)
        if tier is None and medium is not None:
            tier = TIER_OF_MEDIUM.get(medium.upper())
        if tier is None:
            raise UnresolvedError("unknown_medium")
        return tier

    def _write(self) -> None:
        for tier, space in self._spaces.items():
            if not space.ownership.changed:
                continue
            changes = space.ownership.take_changes()
            if changes.cleared:
                self._index.clear(self.key, tier)
            if changes.stored or changes.removed:
                self._index.apply(self.key, tier, changes.stored, changes.removed)
            space.resolver.forget_unowned(space.ownership)
