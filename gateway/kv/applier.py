"""Applier: one replica's decoded events -> what the index says of it.

Joins the two halves: the resolvers, which know what a hash means, and the ownerships, which know what is
held. One Applier lives as long as its ReplicaKey, that is one engine process. Does not know sockets or
sequence numbers: batches come once and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.events import BlockRemoved, BlockStored, EventBatch
from gateway.kv.index import IndexWriter
from gateway.kv.ownership import NOTHING_OWNED, Ownership, OwnershipState
from gateway.kv.resolver import NOTHING_RESOLVED, Chain, Resolver, ResolverState, UnresolvedError
from gateway.kv.thinning import STEP, Thinning
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


class SpaceSize(NamedTuple):
    """How much is known of one tier of a replica."""

    tier: Tier
    owned: int  # blocks
    resolved: int  # hashes of which is known what they mean
    spare: int  # of those, more than can be held


class _Space:
    """One tier of the replica: its hash space and what it holds there."""

    __slots__ = ("known_block_size", "ownership", "resolver", "shares_hashes", "thinning")

    def __init__(self, resolver: Resolver, ownership: Ownership) -> None:
        self.resolver = resolver
        self.ownership = ownership
        self.known_block_size = 0  # as the applier told others
        self.shares_hashes = False  # with the GPU, as vLLM's own offloading does
        self.thinning: Thinning | None = None  # while one goes on

    def clear(self) -> None:
        """Nothing is held that is known of. What hashes mean stays: also a pass that was about to forget some ends."""
        self.ownership.clear()
        self.thinning = None


class Applier:
    """The single writer of ``key``'s entries in ``index``, which begins ``key`` with what the applier owns.

    ``block_size_seen`` is called when a tier's block size becomes known or changes, in tokens. ``state``: what an
    applier under the same secret knew; tiers that are not in it begin with nothing. ``salted``: see :class:`Resolver`.
    """

    def __init__(
        self,
        key: ReplicaKey,
        index: IndexWriter,
        *,
        secret: bytes,
        block_size_seen: BlockSizeSeen,
        state: Mapping[Tier, SpaceState] | None = None,
        salted: Container[int] = frozenset(),
    ) -> None:
        self.key = key
        self._index = index
        self._block_size_seen = block_size_seen
        self._spaces: dict[Tier, _Space] = {}
        for tier in Tier:
            known = NOTHING_KNOWN if state is None else state.get(tier, NOTHING_KNOWN)
            resolver = Resolver(secret, key.namespace, known.resolver, salted=salted)
            self._spaces[tier] = _Space(resolver, Ownership(known.ownership))
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

    def owned_blocks(self, tier: Tier) -> int:
        """How many blocks of a tier are held."""
        return len(self._spaces[tier].ownership)

    def export(self) -> Mapping[Tier, SpaceState]:
        """A copy of all that is known, for an applier elsewhere. Cheap; not for the middle of :meth:`apply`."""
        return {
            tier: SpaceState(space.resolver.export(), space.ownership.export()) for tier, space in self._spaces.items()
        }

    def apply(self, batch: EventBatch) -> Mapping[str, int]:
        """Bring the index up to ``batch``; answers how many of its events were dropped here, by reason."""
        dropped: dict[str, int] = {}
        clears = 0
        for event in batch.events:
            try:
                if isinstance(event, BlockStored):
                    self._store(event)
                elif isinstance(event, BlockRemoved):
                    self._remove(event)
                else:
                    clears += 1
                    self._clear(again=clears > 1)
            except UnresolvedError as unresolved:
                reason = str(unresolved)
                dropped[reason] = dropped.get(reason, 0) + 1
        self._write()
        return dropped

    def lose(self) -> None:
        """Events are missing for good: nothing is held until one says so again. What hashes mean stays."""
        for space in self._spaces.values():
            space.clear()
        self._write()

    def clear_gpu(self) -> None:
        """The GPU cache was emptied, which no event has told of yet."""
        self._spaces[Tier.L0].clear()
        self._write()

    # What is given up to spare memory

    def sizes(self) -> Iterator[SpaceSize]:
        """What is known, tier by tier."""
        for tier, space in self._spaces.items():
            yield SpaceSize(tier, len(space.ownership), len(space.resolver), space.resolver.spare)

    def forget_spare(self, tier: Tier, *, all_unowned: bool = False) -> Generator[None, None, int]:
        """Forget, step by step, what hashes mean that most likely name nothing any more, or all that name nothing held;
        how many that were.
        """
        space = self._spaces[tier]
        return space.resolver.trim(space.ownership, to_owned=all_unowned)

    def thin(self, tier: Tier, keep: int, asked: Iterable[int], step: int = STEP) -> Generator[None, None, int]:
        """Give up, step by step, all but about ``keep`` blocks of a tier; see :class:`Thinning`. How many that were.

        One pass at a time; the one before is broken off.
        """
        space = self._spaces[tier]
        thinning = space.thinning = Thinning(space.resolver, space.ownership, step)
        try:
            for _ in thinning.steps(keep, asked):
                self._write()
                yield
                if space.thinning is not thinning:
                    return thinning.given_up
            self._write()
        finally:
            if space.thinning is thinning:
                space.thinning = None
        yield from self.forget_spare(tier, all_unowned=True)
        return thinning.given_up

    def _store(self, event: BlockStored) -> None:
        tier = self._tier(event)
        space = self._spaces[tier]
        chain = space.resolver.resolve(event) if tier is Tier.L0 and event.tokens else self._resolve(space, event)
        if space.resolver.block_size != space.known_block_size:
            self._note_block_size(tier)
        if tier is Tier.L0:
            self._own_in_gpu(space, chain)
        else:
            space.ownership.ensure(chain.blocks)  # a host or a storage keeps one copy, and evicts in any order

    def _resolve(self, space: _Space, event: BlockStored) -> Chain:
        """Through the GPU's hashes, where a tier uses them."""
        gpu = self._spaces[Tier.L0]
        shared = space is not gpu and gpu.resolver.names(event.hashes)
        space.shares_hashes = space.shares_hashes or shared
        if shared or (event.hashes and not event.tokens):
            return space.resolver.adopt(event, gpu.resolver)
        return space.resolver.resolve(event)

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
        space = self._spaces[self._tier(event)]
        if not space.resolver.follows_group(event.group):
            raise UnresolvedError("other_group")
        known = not event.hashes
        for hash_ in event.hashes:
            if (block := space.resolver.own(hash_)) is not None:
                space.ownership.remove(block)
                known = True
        if not known:
            raise UnresolvedError("unknown_block")

    def _clear(self, *, again: bool) -> None:
        """The GPU's cache was reset; a second such event in a batch may tell so of the memory that vLLM itself offloads
        to, and says no more than the first."""
        self._spaces[Tier.L0].clear()
        if again and self._spaces[Tier.L1].shares_hashes:
            self._spaces[Tier.L1].clear()

    def _tier(self, event: BlockStored | BlockRemoved) -> Tier:
        tier = TIER_OF_MEDIUM.get(event.medium)
        if tier is None and event.medium is not None:
            tier = TIER_OF_MEDIUM.get(event.medium.upper())
        if tier is None:
            raise UnresolvedError("unknown_medium")
        if event.locality == "REMOTE" and tier is not Tier.L2:
            raise UnresolvedError("remote")
        return tier

    def _write(self) -> None:
        for tier, space in self._spaces.items():
            if not space.ownership.changed:
                continue
            changes = space.ownership.take_changes()
            if space.thinning is not None:
                space.thinning.stored(changes.stored)
            if changes.cleared:
                self._index.clear(self.key, tier)
            if changes.stored or changes.removed:
                self._index.apply(self.key, tier, changes.stored, changes.removed)
            space.resolver.forget_unowned(space.ownership)
