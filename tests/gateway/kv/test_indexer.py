"""The indexer: who is followed, under which key, and what happens when one goes or fails."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed import FeedTiming
from gateway.kv.indexer import Indexer
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from loadtest.replica.kv_events import BlockStored
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.waiting import eventually
from tests.gateway.kv.publishers import scripted_publisher

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")
QUICK = FeedTiming(replay_timeout_s=1.0, retry_s=0.01, quiet_s=60.0)
STORED = BlockStored((11,), None, (1, 2, 3, 4), 4)


@dataclass
class Pool:
    """The part of the pool that an indexer sees."""

    index: MemoryIndex = field(default_factory=MemoryIndex)
    caught_up: list[ReplicaKey] = field(default_factory=list)

    def restarted(self, key: ReplicaKey) -> ReplicaKey:
        return key._replace(incarnation=key.incarnation + 1)

    def make_indexer(self) -> Indexer:
        return Indexer(
            self.index,
            secret=b"secret",
            restarted=self.restarted,
            caught_up=self.caught_up.append,
            wall_clock=lambda: 1_000.0,
            timing=QUICK,
        )


def source_of(publisher: EventPublisher) -> EventSource:
    return EventSource(publisher.endpoint, publisher.replay_endpoint)


async def test_replicas_are_followed_before_and_while_it_runs() -> None:
    """Each replica's blocks come under its own key, with their size and the lag of its events."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher(clock=lambda: 997.0) as first, EventPublisher() as second:
        first.publish([STORED])
        indexer.follow(A, source_of(first))
        async with running(indexer.run()):
            indexer.follow(B, source_of(second))
            await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
            await eventually(lambda: indexer.stats[B].state is FeedState.FRESH)

            stats = indexer.stats[A]
            assert (stats.batches, stats.decoded, stats.lag_s) == (1, 1, 3.0)
            assert stats.block_sizes == {Tier.L0: 4}
            assert A in pool.caught_up
            assert pool.index.owned(B, Tier.L0) == 0


async def test_following_twice_changes_nothing_and_elsewhere_starts_anew() -> None:
    """The same source keeps what is known; another one begins with nothing and reads all of it."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as old, EventPublisher() as new, running(indexer.run()):
        old.publish([STORED])
        indexer.follow(A, source_of(old))
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
        indexer.follow(A, source_of(old))
        assert pool.index.owned(A, Tier.L0) == 1

        indexer.follow(A, source_of(new))
        assert pool.index.owned(A, Tier.L0) == 0
        new.publish([STORED, BlockStored((12,), 11, (5, 6, 7, 8), 4)])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 2)


async def test_an_unfollowed_replica_is_forgotten() -> None:
    """Nothing of it stays, in the index or in the stats, and others go on."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED])
        indexer.follow(A, source_of(publisher))
        indexer.follow(B, source_of(publisher))
        await eventually(lambda: pool.index.block_owners() == 2)

        indexer.unfollow(A)
        indexer.unfollow(A)
        indexer.restarted_hint(A)

        assert list(indexer.stats) == [B]
        assert list(pool.index.keys()) == [B]
        publisher.publish([BlockStored((12,), 11, (5, 6, 7, 8), 4)])
        await eventually(lambda: pool.index.owned(B, Tier.L0) == 2)


async def test_a_restart_moves_to_the_key_the_pool_gives() -> None:
    """The old key is gone, the new one holds what the new process replays, and counts go on."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED, BlockStored((12,), 11, (5, 6, 7, 8), 4)])
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 2)
        await publisher.restart()
        publisher.publish([STORED])
        after = A._replace(incarnation=1)
        await eventually(lambda: pool.index.owned(after, Tier.L0) == 1)

        assert list(pool.index.keys()) == [after]
        assert list(indexer.stats) == [after]
        assert (indexer.stats[after].restarts, indexer.stats[after].batches) == (1, 2)
        assert after in pool.caught_up
        indexer.restarted_hint(after)
        indexer.unfollow(after)
        assert pool.index.block_owners() == 0


async def test_what_is_lost_for_good_is_purged_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A gap nobody can fill: a subset from then on, and a warning that says so."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher(replay_endpoint=None) as publisher, running(indexer.run()):
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
        publisher.publish([STORED])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
        publisher.drop_frames(1)
        for hash_ in (21, 22):
            publisher.publish([BlockStored((hash_,), None, (hash_,) * 4, 4)])
        await eventually(lambda: indexer.stats[A].lost == {"gap": 1})

        assert pool.index.owned(A, Tier.L0) == 1
        assert "missing for good (gap)" in caplog.text


async def test_garbage_from_one_replica_is_counted_and_harmless() -> None:
    """Payloads that are no batch and events that are no events; the stream goes on."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with scripted_publisher() as publisher, running(indexer.run()):
        publisher.answers = [[[b"", (-1).to_bytes(8, "big", signed=True), b""]]]
        indexer.follow(A, publisher.source)
        await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
        for sequence, payload in enumerate([b"", b"\xc1", b"\x93\x01\x92\x01\x81\xa1a\x01\x00"]):
            publisher.publish(sequence, payload)
        await eventually(lambda: indexer.stats[A].batches == 3)

        assert indexer.stats[A].dropped == {"malformed_batch": 2, "malformed": 2}
        assert indexer.stats[A].starts == 1


async def test_a_feed_that_fails_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """An address that is none is logged and tried again; the neighbour is followed."""
    pool = Pool()
    indexer = pool.make_indexer()
    with caplog.at_level(logging.ERROR):
        async with EventPublisher() as publisher, running(indexer.run()):
            indexer.follow(A, EventSource("nonsense"))
            indexer.follow(B, source_of(publisher))
            publisher.publish([STORED])
            await eventually(lambda: "the feed of a failed" in caplog.text)
            await eventually(lambda: pool.index.owned(B, Tier.L0) == 1)
            assert indexer.stats[B].starts == 1
