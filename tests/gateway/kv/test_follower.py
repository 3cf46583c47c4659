"""One replica followed: what it knows, what it tells its owner, and where it begins."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest
import zmq

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.feed import FeedTiming
from gateway.kv.follower import Follower
from gateway.kv.follower_state import FollowerState
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from loadtest.replica.kv_events import AllBlocksCleared, BlockStored, EventDialect, KVEvent, encode_batch
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.waiting import eventually

KEY = ReplicaKey("m", "a")
NOWHERE = EventSource("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
QUICK = FeedTiming(replay_timeout_s=1.0, retry_s=0.01, quiet_s=60.0)
STORED = BlockStored((11,), None, (1, 2, 3, 4), 4)
MORE = BlockStored((12,), 11, (5, 6, 7, 8), 4)


@dataclass
class Owner:
    """Begins keys in an index, and keeps what it is told."""

    index: MemoryIndex = field(default_factory=MemoryIndex)
    told: list[str] = field(default_factory=list)
    changes: list[tuple[ReplicaKey, FeedState, bool, dict[Tier, int]]] = field(default_factory=list)
    now: float = 1_000.0

    def wall_clock(self) -> float:
        return self.now

    def begin(self, follower: Follower, state: FollowerState | None) -> Applier:
        applier = Applier(
            follower.key,
            self.index,
            secret=b"secret",
            block_size_seen=follower.saw_block_size,
            state=state.spaces if state else None,
        )
        self.index.begin(follower.key, applier.owned())
        return applier

    def replace(self, follower: Follower) -> Applier:
        follower.key = follower.key._replace(incarnation=follower.key.incarnation + 1)
        return self.begin(follower, None)

    def caught_up(self, follower: Follower) -> None:
        self.told.append(f"{follower.key.incarnation} caught up")

    def state_changed(self, follower: Follower) -> None:
        stats = follower.stats
        self.changes.append((follower.key, stats.state, stats.complete, dict(stats.block_sizes)))


def payload(*events: KVEvent) -> bytes:
    """A batch as the newest vLLM sends it."""
    return encode_batch(events, 997.0, 0, EventDialect.V0_32)


def test_batches_are_counted_and_applied() -> None:
    """With the lag of the last one."""
    owner = Owner()
    follower = Follower(KEY, NOWHERE, owner)

    assert follower.batch(0, payload(STORED, MORE))

    stats = follower.stats
    assert (stats.batches, stats.decoded, stats.lag_s, stats.l0_block_size) == (1, 2, 3.0, 4)
    assert set(follower.owned()) == {Tier.L0}
    assert owner.index.owned(KEY, Tier.L0) == len(follower.owned()[Tier.L0]) == 2


def test_delay_is_told_whatever_the_clocks_say() -> None:
    """It is what a batch took longer than the fastest one; a new process begins anew."""
    owner = Owner()
    follower = Follower(KEY, EventSource("tcp://127.0.0.1:1"), owner)
    for number, ts in enumerate((900.0, 897.5)):
        follower.batch(number, encode_batch([STORED], ts, 0, EventDialect.V0_32))
    assert (follower.stats.lag_s, follower.stats.late_s) == (102.5, 2.5)

    follower.restarted()
    assert follower.stats.late_s == 0.0
    follower.batch(0, encode_batch([STORED], 500.0, 0, EventDialect.V0_32))
    assert (follower.stats.lag_s, follower.stats.late_s) == (500.0, 0.0)


def test_a_loss_is_told_loudly_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is held any more, and the same reason again is no news."""
    owner = Owner()
    follower = Follower(KEY, NOWHERE, owner)
    follower.batch(0, payload(STORED))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            follower.lost("gap")

    assert follower.owned() == {Tier.L0: []}
    assert follower.stats.lost == {"gap": 3}
    assert len(caplog.records) == 1


def test_a_batch_that_may_have_told_of_removals_unread_is_a_loss() -> None:
    """And it says so, since what is known is not complete any more."""
    follower = Follower(KEY, NOWHERE, Owner())
    follower.batch(0, payload(STORED))

    assert not follower.batch(1, b"\xc1")
    assert follower.stats.lost == {"unreadable": 1}
    assert follower.owned() == {Tier.L0: []}


def test_a_new_engine_process_has_a_new_key_and_nothing_known() -> None:
    """Block sizes too may be others."""
    follower = Follower(KEY, NOWHERE, Owner())
    follower.batch(0, payload(STORED))

    follower.restarted()

    assert follower.key == KEY._replace(incarnation=1)
    assert (follower.owned(), follower.stats.block_sizes, follower.stats.l0_block_size) == ({}, {}, 0)


def test_a_reset_that_was_seen_is_believed_before_its_event_comes() -> None:
    """An engine tells of it only with its next step. Its event then says nothing of what is seen the next time."""
    follower = Follower(KEY, NOWHERE, owner := Owner())
    follower.batch(0, payload(STORED))
    follower.reset_seen()
    assert follower.owned_blocks(Tier.L0) == 0

    owner.now += 3600.0
    follower.batch(1, payload(AllBlocksCleared(), STORED))
    held = follower.owned_blocks(Tier.L0)
    assert held
    follower.reset_seen()
    assert follower.owned_blocks(Tier.L0) == 0
    follower.reset_seen()
    follower.batch(2, payload(AllBlocksCleared(), AllBlocksCleared(), STORED))
    assert follower.owned_blocks(Tier.L0) == held


def test_a_reset_that_is_seen_after_its_event_takes_nothing_away() -> None:
    """What was stored since then is held, and nothing counts as evicted a second time. Once: the next is another."""
    follower = Follower(KEY, NOWHERE, Owner())
    follower.batch(0, payload(STORED, AllBlocksCleared(), STORED))
    removed = follower.stats.removed
    follower.reset_seen()
    assert follower.owned_blocks(Tier.L0)
    assert follower.stats.removed == removed

    follower.reset_seen()
    assert follower.owned_blocks(Tier.L0) == 0


def test_a_reset_that_only_its_event_told_of_hides_no_later_one() -> None:
    """Whatever was stored since would be credited to a cache that is empty."""
    follower = Follower(KEY, NOWHERE, owner := Owner())
    follower.batch(0, payload(AllBlocksCleared(), STORED))
    owner.now += 60.0
    follower.reset_seen()

    assert follower.owned_blocks(Tier.L0) == 0


def test_its_owner_hears_of_what_changed_and_of_nothing_twice() -> None:
    """State, completeness, block sizes and key, when a turn has settled."""
    owner = Owner()
    follower = Follower(KEY, NOWHERE, owner)
    owner.changes.clear()
    follower.settled()
    follower.batch(0, payload(STORED))
    assert owner.changes == []
    for _ in range(2):
        follower.settled()
    follower.stats.state = FeedState.FRESH
    follower.settled()
    follower.stats.since = 0
    follower.settled()
    follower.restarted()
    follower.settled()

    after = KEY._replace(incarnation=1)
    assert owner.changes == [
        (KEY, FeedState.BLIND, False, {Tier.L0: 4}),
        (KEY, FeedState.FRESH, False, {Tier.L0: 4}),
        (KEY, FeedState.FRESH, True, {Tier.L0: 4}),
        (after, FeedState.FRESH, True, {}),
    ]


async def test_what_it_knows_another_goes_on_from() -> None:
    """Blind and unchanged until its own stream confirms it; then with what came since."""
    async with EventPublisher(buffer_steps=2) as publisher:
        source = EventSource(publisher.endpoint, publisher.replay_endpoint)
        first, second = Follower(KEY, source, Owner()), Follower(KEY, source, owner := Owner())
        with zmq.Context() as context:
            async with running(first.run(context, QUICK)):
                await eventually(lambda: first.stats.state is FeedState.FRESH)
                for events in ([STORED], [AllBlocksCleared()], [STORED], [MORE]):
                    publisher.publish(events)
                    await eventually(lambda: first.stats.last_sequence == publisher.next_sequence - 1)
                state = first.export("id")
            publisher.publish([BlockStored((13,), 12, (9, 9, 9, 9), 4)])

            second.begin(FollowerState.decode(state.encode()))
            assert (second.owned(), second.stats.state) == (first.owned(), FeedState.BLIND)
            assert (second.stats.complete, second.stats.last_sequence) == (True, 3)
            assert owner.index.owned(KEY, Tier.L0) == 2
            async with running(second.run(context, QUICK)):
                await eventually(lambda: owner.index.owned(KEY, Tier.L0) == 3)
                await eventually(lambda: second.stats.state is FeedState.FRESH)

    assert (state.namespace, state.secret_id) == ("m", "id")
    assert (second.stats.complete, second.stats.batches, second.stats.lost) == (True, 1, {})
    assert owner.told == ["0 caught up"]


async def test_another_run_begins_at_the_beginning() -> None:
    """What a run that failed had applied may not fit to what comes next."""
    async with EventPublisher() as publisher:
        publisher.publish([STORED])
        owner = Owner()
        follower = Follower(KEY, EventSource(publisher.endpoint, publisher.replay_endpoint), owner)
        with zmq.Context() as context:
            for run in (1, 2):
                async with running(follower.run(context, QUICK)):
                    await eventually(lambda: follower.stats.state is FeedState.FRESH)
                    assert (follower.stats.starts, follower.stats.batches) == (run, run)
                    assert owner.index.owned(KEY, Tier.L0) == 1
                assert follower.stats.state is FeedState.BLIND


async def test_a_hint_before_the_first_run_is_none() -> None:
    """There is no stream to ask yet."""
    follower = Follower(KEY, NOWHERE, Owner())

    follower.hint_restart()

    assert follower.stats.restarts == 0
