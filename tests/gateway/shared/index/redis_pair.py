"""A writer and a reader over one Redis, as one index: what the behaviour suite asks of them it asks of memory too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import Chains
from gateway.kv.tiers import Tier, TierTokens
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.index.registry import Details
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink

SECRET_ID = "secret"


#: Replicas of one model, and a prompt of theirs.
A, B = ReplicaKey("org/model {1}", "a:8000"), ReplicaKey("org/model {1}", "b")
BLOCKS = list(range(1000, 1100))
CHAINS = {16: BLOCKS}


class Holdings:
    """What followers would know: blocks by replica and tier. Tells the writer of changes only, as an applier does."""

    def __init__(self) -> None:
        self.held: dict[ReplicaKey, dict[Tier, set[int]]] = {}

    def owned(self, key: ReplicaKey) -> Mapping[Tier, Collection[int]]:
        return self.held.get(key, {})

    def change(
        self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]
    ) -> tuple[set[int], set[int]]:
        """Note it, and answer with what really changed."""
        held = self.held[key].setdefault(tier, set())
        before = set(held)
        held.update(stored)
        held.difference_update(removed)
        return held - before, before - held


class RedisPair:
    """A PrefixIndex whose writes are seen as soon as they are asked for."""

    def __init__(self, link: RedisLink, process_id: str = "one", keys: Keys | None = None) -> None:
        self.keys = keys or Keys("test")
        self.holdings = Holdings()
        self.block_sizes: dict[int, int] = {}  # that are told of every replica
        self.reader = RedisIndex(link, self.keys, secret_id=lambda: SECRET_ID)
        self.writer = RedisWriter(
            link,
            self.keys,
            process_id,
            owned=self.holdings.owned,
            details=lambda _, tiers: Details(
                SECRET_ID, tiers=tuple(map(int, tiers)), block_sizes=dict(self.block_sizes)
            ),
            storage=self.reader.storage,
            lock_s=60,
        )
        self._link = link

    def knows(self, keys: Collection[ReplicaKey]) -> bool:
        return not keys

    def match_now(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        return {}

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        await self.settle()
        await self.read_registries({key.namespace for key in keys})
        return await self.reader.match(chains, keys)

    async def read_registries(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self.reader.registry_answered(namespace, await self._link.run(self.reader.registry_call(namespace)))

    async def settle(self) -> None:
        """Write everything, with the newest registry at hand."""
        for key in self.holdings.held:
            self.writer.claim(key)
        await self.read_registries({key.namespace for key in self.holdings.held})
        while self.writer.is_busy:
            await self.writer.round()

    def apply(self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        if key in self.holdings.held:
            self.writer.apply(key, tier, *self.holdings.change(key, tier, stored, removed))

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        if key in self.holdings.held:
            self.holdings.held[key].get(tier, set()).clear()
            self.writer.clear(key, tier)

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Iterable[int]]) -> None:
        self.holdings.held[key] = {tier: set(blocks) for tier, blocks in snapshot.items()}
        self.writer.begin(key, {})

    def drop(self, key: ReplicaKey) -> None:
        self.holdings.held.pop(key, None)
        self.writer.drop(key)


async def tokens(pair: RedisPair, key: ReplicaKey = A) -> int | None:
    """What a reader sees, without writing anything."""
    await pair.read_registries([key.namespace])
    found = await pair.reader.match(CHAINS, [key])
    return found[key].l0 if key in found else None
