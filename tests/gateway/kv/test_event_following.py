"""Whoever joins the pool with events is followed; what that is worth is told; who leaves is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import EventDialect
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.waiting import eventually
from tests.gateway.examples import a_pool


@asynccontextmanager
async def _following(pool: ReplicaPool, index: MemoryIndex, routed: Routed) -> AsyncIterator[EventFollowing]:
    events = EventFollowing(pool, index, routed, secret=b"s", wall_clock=time)
    pool.listen(events)
    async with running(events.run()):
        yield events


async def test_a_followed_replica_is_fresh_and_its_blocks_are_known() -> None:
    """Blocks arrive in the index, with their size; the state is fresh and the trust full."""
    pool, index = a_pool("a=http://a:1"), MemoryIndex()
    server = pool.server("a")
    assert server is not None
    async with (
        EventPublisher(replay_endpoint="tcp://127.0.0.1:0") as publisher,
        _following(pool, index, Routed()) as events,
    ):
        pool.identify(server, server.cards, {0: EventSource(publisher.endpoint, publisher.replay_endpoint)})
        (replica,) = server.replicas
        cache = BlockCache(100, 32)
        cache.serve(list(range(100)))
        publisher.publish(cache.take_events())
        await eventually(lambda: index.owned(replica.key, Tier.L0) == 3)

        stats = events.stats(replica.key)
        assert stats is not None
        assert (stats.state.trust, stats.block_sizes) == (1.0, {Tier.L0: 32})
        pool.reconcile([])
        assert events.stats(replica.key) is None
        assert index.owned(replica.key, Tier.L0) == 0


async def test_only_the_wanted_are_followed_until_others_are() -> None:
    """What is not followed keeps no entries; whoever joins later is asked for too."""
    pool, index = a_pool("a=http://a:1,b=http://b:1,c=http://c:1"), MemoryIndex()
    wanted = {"a"}
    async with EventPublisher() as publisher, _following(pool, index, Routed()) as events:
        events.follow_only(lambda key: key.server_id in wanted)
        source = EventSource(publisher.endpoint, publisher.replay_endpoint)
        for server in pool.servers:
            pool.identify(server, server.cards, {} if server.id == "c" else {0: source})
        a, b, c = (replica.key for replica in pool.replicas)
        cache = BlockCache(100, 32)
        cache.serve(list(range(100)))
        publisher.publish(cache.take_events())
        await eventually(lambda: index.owned(a, Tier.L0) == 3)
        assert dict(events.followable) == {a: source, b: source}
        assert [events.has_events(key) for key in (a, b, c)] == [True, True, False]
        assert list(events.feeds) == [a]

        wanted.clear()
        wanted.add("b")
        events.reconsider()
        await eventually(lambda: index.owned(b, Tier.L0) == 3)
        assert (list(events.feeds), list(index.keys())) == ([b], [b])
        assert [events.stats(key) is None for key in (a, b, c)] == [True, False, True]

        events.follow_only(None)
        assert set(events.feeds) == {a, b}
        assert events.indexer.is_followed(a)
        pool.reconcile([])
        assert (dict(events.followable), list(index.keys())) == ({}, [])


async def test_a_restart_of_a_replica_that_others_follow_is_taken_from_its_probes() -> None:
    """No events will tell: its key is a new one at once, and what was sent there is forgotten. A followed one's stream
    is asked first."""
    pool, routed = a_pool("a=http://a:1,b=http://b:1"), Routed()
    async with EventPublisher() as publisher, _following(pool, MemoryIndex(), routed) as events:
        events.follow_only(lambda key: key.server_id == "b")
        for server in pool.servers:
            pool.identify(server, server.cards, {0: EventSource(publisher.endpoint, publisher.replay_endpoint)})
        a, b = (replica.key for replica in pool.replicas)
        routed.end(routed.add(a, {16: [1, 2]}, now=0.0), now=0.0, keep=True)
        for server in pool.servers:
            pool.process_started(server, 100.0, 0.0)
            pool.process_started(server, 200.0, 0.0)

        assert [replica.key for replica in pool.replicas] == [a._replace(incarnation=1), b]
        assert list(events.followable) == [a._replace(incarnation=1), b]
        assert routed.match({16: [1, 2]}, [a], now=1.0) == {}


async def test_a_replica_without_events_is_trusted_and_its_restart_forgets_what_was_sent() -> None:
    """A new process start time is all that can be seen of it."""
    pool, routed = a_pool("a=http://a:1"), Routed()
    (replica,) = pool.replicas
    async with _following(pool, MemoryIndex(), routed) as events:
        old = replica.key
        routed.end(routed.add(old, {16: [1, 2]}, now=0.0), now=0.0, keep=True)
        assert routed.match({16: [1, 2]}, [old], now=1.0) == {old: 32}
        pool.process_started(replica.server, 100.0, 0.0)
        pool.process_started(replica.server, 200.0, 0.0)

        assert events.stats(old) is None
        assert replica.key == old._replace(incarnation=1)
        assert routed.match({16: [1, 2]}, [old, replica.key], now=1.0) == {}


async def test_an_emptied_cache_is_believed_before_its_events_tell() -> None:
    """A reset while the engine idles: what was stored and what was sent before is gone; what comes then is known."""
    pool, index, routed = a_pool("a=http://a:1"), MemoryIndex(), Routed()
    server = pool.server("a")
    assert server is not None
    async with (
        EventPublisher(replay_endpoint="tcp://127.0.0.1:0") as publisher,
        _following(pool, index, routed),
    ):
        pool.identify(server, server.cards, {0: EventSource(publisher.endpoint, publisher.replay_endpoint)})
        (replica,) = server.replicas
        cache = BlockCache(100, 32)
        cache.serve(list(range(100)))
        publisher.publish(cache.take_events())
        await eventually(lambda: index.owned(replica.key, Tier.L0) == 3)
        routed.end(routed.add(replica.key, {32: [1, 2]}, now=0.0), now=0.0, keep=True)

        pool.resets_counted(server, 7.0)
        cache.reset()
        pool.cache_reset(server)
        assert index.owned(replica.key, Tier.L0) == 0
        assert routed.match({32: [1, 2]}, [replica.key], now=0.0) == {}
        cache.serve(list(range(200, 270)))
        publisher.publish(cache.take_events())
        await eventually(lambda: index.owned(replica.key, Tier.L0) == 2)
        pool.resets_counted(server, 8.0)  # that one
        assert index.owned(replica.key, Tier.L0) == 2


async def test_a_replica_that_left_is_named_by_nothing() -> None:
    """Neither the index, nor what was sent, nor who follows."""
    pool, index, routed = a_pool("a=http://a:1,b=http://b:1"), MemoryIndex(), Routed()
    async with EventPublisher() as publisher, _following(pool, index, routed) as events:
        for server in pool.servers:
            pool.identify(server, server.cards, {0: EventSource(publisher.endpoint, publisher.replay_endpoint)})
        a, b = (replica.key for replica in pool.replicas)
        routed.end(routed.add(a, {16: [1, 2]}, now=0.0), now=0.0, keep=True)
        pool.reconcile([server.spec for server in pool.servers if server.id == "b"])

        assert (list(index.keys()), list(events.feeds), list(events.followable)) == ([b], [b], [b])
        assert [key for key, _ in events.indexer.appliers()] == [b]
        assert (routed.entries, routed.match({16: [1]}, [a], now=0.0)) == (0, {})


async def test_what_was_sent_with_a_salt_is_not_credited_to_others() -> None:
    """By a publisher from before salts were told: an unsalted prompt would be thought held that is not."""
    pool, index = a_pool("a=http://a:1"), MemoryIndex()
    server = pool.server("a")
    assert server is not None
    unsalted = extend_chain(chain_root(b"s", "tiny", "", "", 32), pack_tokens(range(96)), 32)
    async with (
        EventPublisher(replay_endpoint="tcp://127.0.0.1:0", dialect=EventDialect.V0_16) as publisher,
        _following(pool, index, Routed()) as events,
    ):
        pool.identify(server, server.cards, {0: EventSource(publisher.endpoint, publisher.replay_endpoint)})
        (replica,) = server.replicas
        events.salted.sent(unsalted[:1])
        cache = BlockCache(100, 32)
        cache.serve(list(range(100)), (), CacheScope(cache_salt="tenant"))
        cache.serve(list(range(500, 600)))
        publisher.publish(cache.take_events())
        await eventually(lambda: index.owned(replica.key, Tier.L0) == 3)

        assert index.match_now({32: unsalted}, [replica.key]) == {replica.key: TierTokens(0)}
        assert events.feeds[replica.key].dropped["salted"] == 1
