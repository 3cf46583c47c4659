"""The indexer: who is followed, under which key, and what happens when one goes or fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed import FeedTiming
from gateway.kv.follower_state import FollowerState
from gateway.kv.history import SequenceState
from gateway.kv.index import IndexWriter
from gateway.kv.indexer import Indexer
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tee import Tee
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from loadtest.replica.kv_events import BlockRemoved, BlockStored
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
    writer: IndexWriter | None = None
    caught_up: list[ReplicaKey] = field(default_factory=list)

    def restarted(self, key: ReplicaKey) -> ReplicaKey:
        return key._replace(incarnation=key.incarnation + 1)

    def make_indexer(self) -> Indexer:
        return Indexer(
            self.writer or self.index,
            secret=b"secret",
            secret_id="id",
            restarted=self.restarted,
            caught_up=self.caught_up.append,
            wall_clock=lambda: 1_000.0,
            timing=QUICK,
        )


def source_of(publisher: EventPublisher) -> EventSource:
    return EventSource(publisher.endpoint, publisher.replay_endpoint)


@dataclass
class Record:
    """An index writer that keeps what it is told of keys."""

    told: list[tuple[str, ReplicaKey]] = field(default_factory=list)

    def apply(self, key: ReplicaKey, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        """Not of interest."""

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        """Not of interest."""

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Collection[int]]) -> None:
        self.told.append(("begin", key))

    def drop(self, key: ReplicaKey) -> None:
        self.told.append(("drop", key))


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
            assert (stats.batches, stats.decoded, stats.lag_s) == (1, 1, None)  # how old history is says nothing
            await eventually(lambda: stats.state is FeedState.FRESH)
            first.publish([STORED])
            await eventually(lambda: stats.batches == 2)
            assert (stats.lag_s, stats.late_s) == (3.0, 0.0)
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


async def test_what_was_announced_is_known_after_it_is_gone() -> None:
    """A block that was evicted was there; one that nobody told of was not; of a stranger nothing is known."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED])
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
        (block,) = indexer.owned(A)[Tier.L0]
        publisher.publish([BlockRemoved((11,))])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 0)

        assert indexer.announced(A, Tier.L0, block)
        assert indexer.announced(A, Tier.L0, block + 1) is False
        assert indexer.announced(B, Tier.L0, block) is None


async def test_what_somebody_disproved_is_held_no_more_until_events_say_so_again() -> None:
    """What was applied can be told by number, and how much is held by count."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED])
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: indexer.owned_blocks(A, Tier.L0) == 1)
        position = indexer.position(A)
        assert position is not None
        assert (position.last, len(position.recent)) == (0, 1)

        indexer.disprove(A, "vanished")
        indexer.disprove(B, "vanished")
        assert (indexer.owned_blocks(A, Tier.L0), pool.index.owned(A, Tier.L0)) == (0, 0)
        assert indexer.stats[A].lost == {"vanished": 1}
        assert (indexer.position(B), indexer.owned_blocks(B, Tier.L0)) == (None, 0)

        publisher.publish([BlockStored((12,), 11, (5, 6, 7, 8), 4)])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 2)


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


async def test_a_new_incarnation_begins_before_the_old_one_is_dropped() -> None:
    """So that no reader ever finds neither."""
    record, index = Record(), MemoryIndex()
    indexer = Pool(index, Tee(index, record)).make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED])
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: index.owned(A, Tier.L0) == 1)
        await publisher.restart()
        after = A._replace(incarnation=1)
        await eventually(lambda: indexer.is_followed(after))

        assert record.told == [("begin", A), ("begin", after), ("drop", A)]
        assert not indexer.is_followed(A)


async def test_a_newcomer_goes_on_from_what_another_knows() -> None:
    """It learns what no replay reaches, holds it at once, and both go on alike; counts go on too."""
    old, new = Pool(), Pool()
    first, second = old.make_indexer(), new.make_indexer()
    async with EventPublisher(buffer_steps=2) as publisher, running(first.run()), running(second.run()):
        first.follow(A, source_of(publisher))
        await eventually(lambda: first.stats[A].state is FeedState.FRESH)
        for hash_ in range(11, 16):
            publisher.publish([BlockStored((hash_,), None, (hash_,) * 4, 4)])
        await eventually(lambda: old.index.owned(A, Tier.L0) == 5)
        second.follow(A, source_of(publisher))
        await eventually(lambda: second.stats[A].state is FeedState.FRESH)
        assert (second.stats[A].complete, new.index.owned(A, Tier.L0)) == (False, 2)

        state = first.export(A)
        assert state is not None
        second.resume(A, FollowerState.decode(state.encode()))
        assert (second.stats[A].state, new.index.owned(A, Tier.L0)) == (FeedState.BLIND, 5)
        assert second.owned(A) == first.owned(A)
        await eventually(lambda: second.stats[A].state is FeedState.FRESH)
        publisher.publish([BlockRemoved((11, 15))])
        await eventually(lambda: new.index.owned(A, Tier.L0) == 3)

        stats = second.stats[A]
        assert (stats.complete, stats.starts, stats.batches, stats.lost) == (True, 2, 3, {})
        assert second.export(A) == first.export(A)


async def test_a_state_handed_on_before_it_runs_is_not_forgotten() -> None:
    """It begins with it when it runs."""
    pool, indexer = Pool(), Pool().make_indexer()
    newcomer = pool.make_indexer()
    async with EventPublisher(buffer_steps=1) as publisher:
        async with running(indexer.run()):
            indexer.follow(A, source_of(publisher))
            await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
            for events in ([STORED], [BlockStored((12,), 11, (5, 6, 7, 8), 4)]):
                publisher.publish(events)
            await eventually(lambda: indexer.stats[A].last_sequence == 1)
            state = indexer.export(A)
            assert state is not None
        newcomer.follow(A, source_of(publisher))
        newcomer.resume(A, state)
        async with running(newcomer.run()):
            await eventually(lambda: newcomer.stats[A].state is FeedState.FRESH)

            assert (pool.index.owned(A, Tier.L0), newcomer.stats[A].complete) == (2, True)


async def test_what_nobody_follows_has_no_state() -> None:
    """Nothing to export, nothing owned, nothing to resume."""
    pool = Pool()
    indexer = pool.make_indexer()

    indexer.resume(A, FollowerState("m", "id", SequenceState(), {}))

    assert (indexer.export(A), indexer.owned(A), indexer.is_followed(A)) == (None, {}, False)
    assert list(pool.index.keys()) == []


@pytest.mark.parametrize("state", [FollowerState("other", "id", SequenceState(), {}),
                                   FollowerState("m", "other", SequenceState(), {})])  # fmt: skip
async def test_a_state_of_another_model_or_secret_is_refused(state: FollowerState) -> None:
    """Its hashes mean nothing here."""
    indexer = Pool().make_indexer()
    indexer.follow(A, EventSource("tcp://127.0.0.1:1"))

    with pytest.raises(ValueError, match="another model, or under another hash secret"):
        indexer.resume(A, state)


async def test_what_cannot_be_verified_costs_nothing_that_is_known() -> None:
    """Without a replay port a state would be lost at once, and with it what came from the stream."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher(replay_endpoint=None) as publisher, running(indexer.run()):
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
        await eventually(publisher.has_subscriber)
        publisher.publish([STORED])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
        state = indexer.export(A)
        assert state is not None

        with pytest.raises(ValueError, match="replay port"):
            indexer.resume(A, state)
        assert (pool.index.owned(A, Tier.L0), indexer.stats[A].starts) == (1, 1)


async def test_another_secret_starts_all_feeds_over() -> None:
    """The same blocks under other hashes, and states under the new name; the same secret again changes nothing."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher() as publisher, running(indexer.run()):
        publisher.publish([STORED])
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
        before = indexer.owned(A)

        indexer.use_secret(b"other", "other id")
        assert pool.index.owned(A, Tier.L0) == 0
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)

        assert set(before[Tier.L0]).isdisjoint(indexer.owned(A)[Tier.L0])
        assert not any(pool.index.holds(A, Tier.L0, block) for block in before[Tier.L0])
        state = indexer.export(A)
        assert state is not None
        assert state.secret_id == "other id"
        indexer.use_secret(b"other", "other id")
        assert indexer.stats[A].starts == 2


async def test_who_listens_hears_of_each_change_with_its_key() -> None:
    """Fresh, complete, a block size, a new process, blind again; of an unfollowed replica nothing more."""
    indexer = Pool().make_indexer()
    heard: list[tuple[ReplicaKey, FeedState, bool, bool]] = []

    def listen(key: ReplicaKey) -> None:
        stats = indexer.stats[key]
        heard.append((key, stats.state, stats.complete, Tier.L0 in stats.block_sizes))
        assert indexer.export(key) is not None

    indexer.listen(listen)
    after = A._replace(incarnation=1)
    async with EventPublisher() as publisher:
        async with running(indexer.run()):
            indexer.follow(A, source_of(publisher))
            indexer.follow(B, source_of(publisher))
            indexer.unfollow(B)
            await eventually(lambda: heard and heard[-1] == (A, FeedState.FRESH, True, False))
            publisher.publish([STORED])
            await eventually(lambda: heard[-1] == (A, FeedState.FRESH, True, True))
            await publisher.restart()
            await eventually(lambda: heard[-1] == (after, FeedState.FRESH, True, False))
        assert heard[-1] == (after, FeedState.BLIND, True, False)
    assert {key for key, *_ in heard} == {A, after}


async def test_what_is_lost_for_good_is_purged_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A gap nobody can fill: a subset from then on, and a warning that says so."""
    pool = Pool()
    indexer = pool.make_indexer()
    async with EventPublisher(replay_endpoint=None) as publisher, running(indexer.run()):
        indexer.follow(A, source_of(publisher))
        await eventually(lambda: indexer.stats[A].state is FeedState.FRESH)
        await eventually(publisher.has_subscriber)
        publisher.publish([STORED])
        await eventually(lambda: pool.index.owned(A, Tier.L0) == 1)
        publisher.drop_frames(1)
        for hash_ in (21, 22):
            publisher.publish([BlockStored((hash_,), None, (hash_,) * 4, 4)])
        await eventually(lambda: indexer.stats[A].lost == {"gap": 1})

        assert pool.index.owned(A, Tier.L0) == 1
        assert "were missing (gap)" in caplog.text


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
