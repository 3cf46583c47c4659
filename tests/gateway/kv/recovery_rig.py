"""A simulated engine whose events go over real sockets, and gateways that follow it: what tests of recovery share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed import FeedTiming
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import BlockRemoved
from loadtest.replica.publisher import EventPublisher, wall_clock
from tests.fakes.background import running
from tests.fakes.waiting import eventually
from tests.gateway.examples import MODEL, SECRET, a_pool

BLOCK = 4  # tokens
CAPACITY = 24  # blocks
PLAIN = CacheScope()
QUICK = FeedTiming(replay_timeout_s=2.0, retry_s=0.02, quiet_s=0.1, blind_after_s=0.2, recover_s=0.05)


def prompt(*path: int) -> list[int]:
    """A block for each step of the path, and one token more, so that no block is computed twice."""
    return [100 * depth + 10 * step + i for depth, step in enumerate(path) for i in range(BLOCK)] + [7]


def blocks_of(path: Sequence[int]) -> frozenset[int]:
    """Own hashes of a plain prompt's full blocks."""
    return frozenset(extend_chain(chain_root(SECRET, MODEL, "", "", BLOCK), pack_tokens(prompt(*path)), BLOCK))


@dataclass
class Engine:
    """One engine process after the other, on the same ports."""

    publisher: EventPublisher
    cache: BlockCache = field(default_factory=lambda: BlockCache(CAPACITY, BLOCK))
    rounds: int = 0

    def serve(self, *paths: Sequence[int], scope: CacheScope = PLAIN) -> None:
        """A request for each path, each a step of its own."""
        for path in paths:
            self.cache.serve(prompt(*path), scope=scope)
            self.step()

    def step(self) -> None:
        """What happened in the cache since the last step is published."""
        self.publisher.publish(self.cache.take_events())

    def turn_over(self) -> None:
        """Nothing of what was cached before stays."""
        for _ in range(CAPACITY // 4 + 1):
            self.rounds += 1
            self.serve((10 + self.rounds, 0, 0, 0))

    def say_nothing(self, batches: int, size: int = 1) -> None:
        """Batches about ``size`` blocks that nobody knows, which change nothing."""
        for _ in range(batches):
            self.publisher.publish([BlockRemoved((2**64 - 1,) * size)])

    async def restart(self) -> None:
        """Another process: empty, and it numbers from 0."""
        await self.publisher.restart()
        self.cache = BlockCache(CAPACITY, BLOCK)

    @property
    def resident(self) -> frozenset[int]:
        """Own hashes of the blocks in the cache: the truth."""
        return frozenset(
            extend_chain(chain_root(SECRET, MODEL, each.lora, each.cache_salt, BLOCK), each.tokens, BLOCK)[-1]
            for each in self.cache.resident_prefixes().values()
        )

    @property
    def source(self) -> EventSource:
        return EventSource(self.publisher.endpoint, self.publisher.replay_endpoint)


@dataclass
class Gateway:
    """What one gateway knows of one replica."""

    pool: ReplicaPool
    events: EventFollowing
    index: MemoryIndex

    def identify(self, server_id: str, sources: Mapping[int, EventSource]) -> None:
        """The probes learned where a server publishes, by rank."""
        server = self.pool.server(server_id)
        assert server is not None
        self.pool.identify(server, server.cards, sources, tuple(sources))

    @property
    def key(self) -> ReplicaKey:
        return next(iter(self.pool.replicas)).key

    @property
    def stats(self) -> FeedStats:
        stats = self.events.stats(self.key)
        assert stats is not None
        return stats

    def held(self, key: ReplicaKey | None = None) -> frozenset[int]:
        """Own hashes of what a replica holds, as the index says; the indexer must say the same."""
        key = key or self.key
        owned = frozenset(self.events.indexer.owned(key).get(Tier.L0, ()))
        assert all(self.index.holds(key, Tier.L0, block) for block in owned)
        assert self.index.owned(key, Tier.L0) == len(owned)
        return owned

    def caught_up(self, engine: Engine) -> bool:
        """Whether the feed has all that was published, and says so."""
        stats = self.stats
        return stats.state is FeedState.FRESH and stats.last_sequence == engine.publisher.next_sequence - 1

    async def exact(self, engine: Engine) -> None:
        """Wait until the index holds what the cache does, no more and no less."""
        await eventually(lambda: self.caught_up(engine) and self.held() == engine.resident)

    async def partial(self, engine: Engine) -> None:
        """Wait until it has caught up: it misses something then, and holds nothing that the cache does not."""
        await eventually(lambda: self.caught_up(engine))
        assert self.held() < engine.resident

    async def converges(self, engine: Engine) -> None:
        """Once the cache's content was replaced, all of it is known."""
        engine.turn_over()
        await self.exact(engine)


@asynccontextmanager
async def gateway(
    engine: Engine, *, source: EventSource | None = None, timing: FeedTiming = QUICK
) -> AsyncIterator[Gateway]:
    """A gateway that follows an engine as its only replica, from its start to its end. It has subscribed."""
    pool, index = a_pool("a=http://a:1"), MemoryIndex()
    events = EventFollowing(pool, index, Routed(), secret=SECRET, wall_clock=wall_clock, timing=timing)
    pool.listen(events)
    made = Gateway(pool, events, index)
    made.identify("a", {0: source or engine.source})
    async with running(events.run()):
        await eventually(lambda: made.stats.state is FeedState.FRESH and engine.publisher.has_subscriber())
        yield made
