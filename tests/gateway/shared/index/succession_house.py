"""Processes that follow one replica over real Redis and real events, each of which takes its turns when it is told to.

So nothing depends on how long anything takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from random import Random

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.block_bytes import members
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tee import Tee
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.redis_url import RedisTarget
from gateway.shared.index.handover import Handover
from gateway.shared.index.knowledge import knowledge
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.index.registry import Details
from gateway.shared.index.succession import Succession, known_replicas
from gateway.shared.index.written_replica import Owned
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.processes.member_record import MemberRecord, replica_number
from gateway.shared.processes.members import Members
from loadtest.replica.block_cache import BlockCache
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.gateway.examples import MODEL, Clock, a_pool
from tests.gateway.shared.link.links import PATIENT_S
from tests.gateway.shared.processes.processes import beat

KEYS = Keys("test")
A = ReplicaKey(MODEL, "a")
BLOCK = 16


class Engine:
    """A replica's cache, and its events."""

    def __init__(self, publisher: EventPublisher) -> None:
        self.publisher = publisher
        self.cache = BlockCache(64, BLOCK)
        self._numbers = count()
        self._rng = Random(5)

    @property
    def source(self) -> EventSource:
        return EventSource(self.publisher.endpoint, self.publisher.replay_endpoint)

    def serve(self, prompts: int) -> None:
        """Each is new, and one batch of events; older ones are evicted."""
        for _ in range(prompts):
            number = next(self._numbers)
            self.cache.serve([number * 1000 + token for token in range(BLOCK * self._rng.randint(1, 8) + 1)])
            self.publisher.publish(self.cache.take_events())

    def truth(self, secret: bytes) -> set[int]:
        """Own hashes of what it holds."""
        root = chain_root(secret, MODEL, "", "", BLOCK)
        prefixes = self.cache.resident_prefixes().values()
        return {extend_chain(root, pack_tokens(prefix.tokens), BLOCK)[-1] for prefix in prefixes}


class Process:
    """One of several that follow ``engine``; with its own connection, pool, index and feed."""

    def __init__(self, id_: str, link: RedisLink, engine: Engine, secret: str) -> None:
        self.id = id_
        self.link = link
        self.engine = engine
        self.secret = secret
        self.pool: ReplicaPool = a_pool("a=http://a:1")
        self.memory = MemoryIndex()
        self.remote = RedisIndex(link, KEYS, secret_id=lambda: secret)
        self.writer = RedisWriter(
            link,
            KEYS,
            id_,
            owned=self._owned,
            details=lambda _key, _tiers: Details(secret),
            storage=self.remote.storage,
            lock_s=60,
        )
        self.events = EventFollowing(
            self.pool,
            Tee(self.memory, self.writer),
            Routed(),
            secret=secret.encode(),
            secret_id=secret,
            wall_clock=lambda: 0.0,
        )
        self.clock = Clock()
        self.members = Members(KEYS, self._record, clock=self.clock, dead_after_s=PATIENT_S)
        self.succession = Succession(id_, self.members, self.events, self.writer, Handover(link, KEYS))
        self.pool.listen(self.events)
        (server,) = self.pool.servers
        self.pool.identify(server, server.cards, {0: engine.source})

    def _owned(self, key: ReplicaKey) -> Owned:
        return self.events.indexer.owned(key)

    def _record(self) -> MemberRecord:
        known = {replica_number(key): amount for key, amount in known_replicas(self.events).items()}
        return MemberRecord(self.id, secret_id=self.secret, replicas=known)

    async def turn(self) -> None:
        """A beat, a round of the succession, a round of the writer."""
        await beat(self.link, self.members)
        await self.succession.round()
        self.writer.renew_now()
        await self.writer.round()

    @property
    def key(self) -> ReplicaKey:
        """The replica's, as this process counts its incarnations."""
        return next(iter(self.pool.replicas)).key

    @property
    def stats(self) -> FeedStats:
        """Of its feed; blind if there is none."""
        return self.events.stats(self.key) or FeedStats()

    @property
    def follows(self) -> bool:
        return self.events.indexer.is_followed(self.key)

    @property
    def writes(self) -> bool:
        return self.writer.writes(self.key)

    @property
    def knowledge(self) -> int:
        return knowledge(self.events.stats(self.key))

    def is_true(self) -> bool:
        """Whether it has applied everything, and holds exactly what the replica does."""
        if self.stats.state is not FeedState.FRESH or self.stats.last_sequence != self.last_sequence:
            return False
        return set(self.events.indexer.owned(self.key).get(Tier.L0, ())) == self.engine.truth(self.secret.encode())

    @property
    def last_sequence(self) -> int:
        return self.engine.publisher.next_sequence - 1


class House:
    """Processes on one Redis, around one replica."""

    def __init__(self, server: RedisServer, engine: Engine, stack: AsyncExitStack) -> None:
        self.server = server
        self.client = server.client()
        self.engine = engine
        self._stack = stack
        self._blocks: dict[Process, AsyncExitStack] = {}

    async def join(self, id_: str, secret: str = "secret") -> Process:
        """One more, whose feed begins now."""
        stack = await self._stack.enter_async_context(AsyncExitStack())
        link = RedisLink(RedisTarget.parse(self.server.url), clock=time.monotonic, timeout_s=PATIENT_S)
        stack.push_async_callback(link.close)
        process = Process(id_, link, self.engine, secret)
        await stack.enter_async_context(running(process.events.run()))
        self._blocks[process] = stack
        return process

    async def kill(self, process: Process) -> None:
        """As a process that is killed looks to the others after a while: silent, and its lock lapsed."""
        await self._blocks[process].aclose()
        for name in (KEYS.fleet("members"), KEYS.fleet("records")):
            self.client.hdel(name, process.id)
        if self.client.get(KEYS.writer(A)) == process.id.encode():
            self.client.delete(KEYS.writer(A))

    async def leave(self, process: Process) -> None:
        """A planned stop: its feed has ended when it says goodbye."""
        await process.succession.finish()
        await process.members.leave(process.link)
        await self._blocks[process].aclose()

    def in_redis(self, secret: str = "secret") -> bool:
        """Whether Redis holds exactly what the replica does."""
        entry = self.client.hget(KEYS.registry(MODEL), "r:a")
        if not isinstance(entry, bytes):
            return False
        held = self.client.smembers(KEYS.blocks(A, int(entry.split(b" ")[0]), Tier.L0))
        return set(held) == {*members(self.engine.truth(secret.encode())), b"@"}


async def until(done: Callable[[], object], *processes: Process) -> None:
    """Let them take turns until it is so."""
    try:
        async with asyncio.timeout(PATIENT_S):
            while not done():
                await turns(1, *processes)
    except TimeoutError:
        told = [(p.id, p.stats.state.label, p.stats.since, p.stats.last_sequence, p.writes) for p in processes]
        pytest.fail(f"never: {told}")


async def turns(number: int, *processes: Process) -> None:
    for _ in range(number):
        for process in processes:
            await process.turn()
        await asyncio.sleep(0.005)
