"""MemoryIndex: the PrefixIndex of a single gateway process, in its memory.

Synchronous: no loop, no clock, no threads; the offline replay uses it as it is. Knows hashes and replica
keys, never tokens, events or addresses. Counts of copies are the writer's business, a block is owned or
not.

An L2 block belongs to the namespace: whoever announced it, all replicas of the namespace can load it, and a
removal by any of them removes it for all. Entries whose announcer is forgotten are forgotten with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import Chains
from gateway.kv.owner_masks import OwnerMasks, Run
from gateway.kv.tiers import Tier, TierTokens

_NONE_HELD = TierTokens(0)
_ASKED = 20_000  # matches that are remembered


class _Member:
    """A replica that the index knows: its bit in each tier, and which tiers were ever told of."""

    __slots__ = ("bits", "key", "l1_known", "l2_known")

    def __init__(self, key: ReplicaKey, bits: dict[Tier, int]) -> None:
        self.key = key
        self.bits = bits
        self.l1_known = False
        self.l2_known = False


class MemoryIndex:
    """L0 is matched by galloping, which is exact for vLLM's cache: a block is evicted before its parent is.

    L1 and L2 evict in any order and hold few, large blocks: they are walked block by block.
    """

    def __init__(self) -> None:
        self._tiers = {tier: OwnerMasks() for tier in Tier}
        self._members: dict[ReplicaKey, _Member] = {}
        self._by_bit: dict[Tier, dict[int, ReplicaKey]] = {tier: {} for tier in Tier}
        self._l2_members: Counter[str] = Counter()  # namespace -> replicas that ever told of L2
        self._knows_lower_tiers = False  # whether any replica ever told of L1 or L2
        self._asked: deque[tuple[int, int]] | None = None  # the last block of a match in L0, and who owns it

    def __repr__(self) -> str:
        return f"<MemoryIndex {len(self._members)} replicas, {self.block_owners()} block-owners>"

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """See :class:`PrefixIndex`. Never really waits."""
        return self.match_now(chains, keys)

    def knows(self, keys: Collection[ReplicaKey]) -> bool:
        """See :class:`PrefixIndex`. It is the only index there is."""
        return True

    def match_now(self, chains: Chains, keys: Collection[ReplicaKey]) -> dict[ReplicaKey, TierTokens]:
        """How long a prefix each key holds, in tokens: the longest that any of the block sizes shows."""
        found = self._match_l0(chains, keys)
        if self._knows_lower_tiers:
            self._add_lower_tiers(found, chains)
        return found

    def _match_l0(self, chains: Chains, keys: Iterable[ReplicaKey]) -> dict[ReplicaKey, TierTokens]:
        """One result for all that hold equally much: this runs for every replica at every request."""
        found: dict[ReplicaKey, TierTokens] = {}
        member_of, l0, wanted = self._members.get, Tier.L0, 0
        for key in keys:
            member = member_of(key)
            if member is not None:
                wanted |= member.bits[l0]
                found[key] = _NONE_HELD
        masks, by_bit, asked = self._tiers[l0], self._by_bit[l0], self._asked
        for block_size, chain in chains.items():
            for owners, blocks in masks.gallop(chain, wanted):
                held = TierTokens(blocks * block_size)
                if asked is not None:
                    asked.append((chain[blocks - 1], owners))
                while owners:
                    bit = owners & -owners
                    owners ^= bit
                    key = by_bit[bit]
                    if held > found[key]:  # noqa: PLR1730 - without a call
                        found[key] = held
        return found

    def _add_lower_tiers(self, found: dict[ReplicaKey, TierTokens], chains: Chains) -> None:
        members = [self._members[key] for key in found]
        a1 = self._in_host_memory(chains, [member for member in members if member.l1_known])
        a2 = self._with_storage(chains, members) if self._l2_members else {}
        for member in members:
            key = member.key
            found[key] = TierTokens(
                found[key].l0,
                a1.get(key, 0) if member.l1_known else None,
                a2.get(key, 0) if self._knows_storage(member) else None,
            )

    def apply(self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        """See :class:`PrefixIndex`. ``removed`` is applied after ``stored``."""
        member = self._members.get(key)
        if member is None:
            return
        self._note_known(member, tier)
        masks, bit = self._tiers[tier], member.bits[tier]
        masks.add(bit, stored)
        if tier is Tier.L2:
            masks.disown(removed)
        else:
            masks.remove(bit, removed)

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        """See :class:`PrefixIndex`. Takes the same short time however much there was."""
        member = self._members.get(key)
        if member is not None:
            self._retire_bit(member, tier)
            self._give_bit(member, tier)

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Iterable[int]]) -> None:
        """See :class:`PrefixIndex`. A key that is known already starts anew."""
        self.drop(key)
        member = self._members[key] = _Member(key, {})
        for tier in Tier:
            self._give_bit(member, tier)
        for tier, blocks in snapshot.items():
            self.apply(key, tier, blocks, ())

    def drop(self, key: ReplicaKey) -> None:
        """See :class:`PrefixIndex`. Takes the same short time however much there was."""
        member = self._members.pop(key, None)
        if member is None:
            return
        for tier in Tier:
            self._retire_bit(member, tier)
        if member.l2_known:
            self._l2_members[key.namespace] -= 1
            self._l2_members = +self._l2_members

    def keys(self) -> Collection[ReplicaKey]:
        """The replicas that were begun and not dropped."""
        return self._members.keys()

    def owned(self, key: ReplicaKey, tier: Tier) -> int:
        """How many blocks of a tier ``key`` owns (of L2: announced). 0 for an unknown key."""
        member = self._members.get(key)
        return self._tiers[tier].blocks_of(member.bits[tier]) if member else 0

    def holds(self, key: ReplicaKey, tier: Tier, block: int) -> bool:
        """Whether ``key`` owns one block, by own hash. For proofs, not for routing."""
        member = self._members.get(key)
        return member is not None and bool(self._tiers[tier].owners(block) & member.bits[tier])

    def note_asked(self, wanted: bool) -> None:
        """Whether to remember what is asked for, for :meth:`asked_of`. It is not for nothing."""
        if wanted is (self._asked is None):
            self._asked = deque(maxlen=_ASKED) if wanted else None

    def asked_of(self, key: ReplicaKey) -> list[int]:
        """The last blocks in L0 of what was matched at ``key`` lately, the latest first; nothing if none was noted."""
        member = self._members.get(key)
        if member is None or self._asked is None:
            return []
        bit = member.bits[Tier.L0]
        return [block for block, owners in reversed(self._asked) if owners & bit]

    def block_owners(self) -> int:
        """Pairs of block and owner, over all tiers: what the index's memory is proportional to."""
        return sum(masks.owned_blocks() for masks in self._tiers.values())

    def sweep(self, shards: int) -> bool:
        """Clean up after replicas that went, ``shards`` shards a tier; whether anything is left to do.

        Writes do it by themselves: only an index that nobody writes to any more needs this.
        """
        left = [masks.sweep(shards) for masks in self._tiers.values()]
        return any(left)

    def _give_bit(self, member: _Member, tier: Tier) -> None:
        bit = self._tiers[tier].new_owner()
        member.bits[tier] = bit
        self._by_bit[tier][bit] = member.key

    def _retire_bit(self, member: _Member, tier: Tier) -> None:
        bit = member.bits.pop(tier)
        del self._by_bit[tier][bit]
        self._tiers[tier].retire(bit)

    def _note_known(self, member: _Member, tier: Tier) -> None:
        if tier is not Tier.L0:
            self._knows_lower_tiers = True
        if tier is Tier.L1:
            member.l1_known = True
        elif tier is Tier.L2 and not member.l2_known:
            member.l2_known = True
            self._l2_members[member.key.namespace] += 1

    def _in_host_memory(self, chains: Chains, members: Iterable[_Member]) -> dict[ReplicaKey, int]:
        wanted = 0
        for member in members:
            wanted |= member.bits[Tier.L1]
        found: dict[ReplicaKey, int] = {}
        if wanted:
            for block_size, chain in chains.items():
                self._keep_longest(found, self._tiers[Tier.L1].walk(chain, wanted), block_size)
        return found

    def _with_storage(self, chains: Chains, members: Iterable[_Member]) -> dict[ReplicaKey, int]:
        wanted = 0
        for member in members:
            if self._knows_storage(member):
                wanted |= member.bits[Tier.L1]
        if not wanted:
            return {}
        host, storage = self._tiers[Tier.L1], self._tiers[Tier.L2]
        found: dict[ReplicaKey, int] = {}
        for block_size, chain in chains.items():
            self._keep_longest(found, host.walk(chain, wanted, storage), block_size)
        return found

    def _keep_longest(self, found: dict[ReplicaKey, int], runs: Iterable[Run], block_size: int) -> None:
        by_bit = self._by_bit[Tier.L1]
        for owners, blocks in runs:
            tokens = blocks * block_size
            while owners:
                bit = owners & -owners
                owners ^= bit
                key = by_bit[bit]
                if tokens > found.get(key, 0):
                    found[key] = tokens

    def _knows_storage(self, member: _Member) -> bool:
        return bool(self._l2_members) and member.key.namespace in self._l2_members
