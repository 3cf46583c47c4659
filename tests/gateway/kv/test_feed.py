"""The feed on real sockets: replays in both framings, publishers that stop short, and restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import zmq

from gateway.fleet.event_source import EventSource
from gateway.kv.feed import Feed, FeedTiming
from gateway.kv.feed_stats import FeedStats
from gateway.kv.history import AT_THE_BEGINNING, SequenceState
from gateway.kv.sequence import Sequence
from gateway.kv.trust import FeedState
from loadtest.replica.kv_events import AllBlocksCleared, EventDialect
from loadtest.replica.publisher import EventPublisher
from tests.fakes import background
from tests.fakes.waiting import eventually
from tests.gateway.kv.publishers import END, batch, old_batch, scripted_publisher

QUICK = FeedTiming(replay_timeout_s=0.1, retry_s=0.01, quiet_s=60.0, blind_after_s=0.05)


@dataclass
class Recorder:
    """A sink that keeps what it was told, in order, and can read anything but ``unreadable``."""

    told: list[object] = field(default_factory=list)
    unreadable: bytes = b"unreadable"
    on_settled: list[Callable[[], None]] = field(default_factory=list)

    def batch(self, sequence: int, payload: bytes) -> bool:
        self.told.append((sequence, payload))
        return payload != self.unreadable

    def lost(self, reason: str) -> None:
        self.told.append(reason)

    def restarted(self) -> None:
        self.told.append("restarted")

    def caught_up(self) -> None:
        """Said with the state, which these tests ask."""

    def settled(self) -> None:
        for listener in self.on_settled:
            listener()

    @property
    def numbers(self) -> list[int]:
        """The numbers of the batches alone."""
        return [entry[0] for entry in self.told if isinstance(entry, tuple)]


@dataclass
class Running:
    """A feed at work."""

    feed: Feed
    sequence: Sequence
    sink: Recorder
    stats: FeedStats

    async def fresh(self) -> None:
        """Wait until it is connected and has no doubts."""
        await eventually(lambda: self.stats.state is FeedState.FRESH)


@asynccontextmanager
async def feed(
    source: EventSource, timing: FeedTiming = QUICK, state: SequenceState = AT_THE_BEGINNING
) -> AsyncIterator[Running]:
    """A feed that runs until the end of the block."""
    sink, stats = Recorder(), FeedStats()
    sequence = Sequence(replayable=source.replay_endpoint is not None, state=state)
    with zmq.Context() as context:
        running = Running(Feed(source, sink, stats, sequence, context=context, timing=timing), sequence, sink, stats)
        async with background.running(running.feed.run()):
            yield running


def source_of(publisher: EventPublisher) -> EventSource:
    return EventSource(publisher.endpoint, publisher.replay_endpoint)


@pytest.mark.parametrize("dialect", [EventDialect.V0_25, EventDialect.V0_32])
async def test_a_late_joiner_gets_the_history_then_what_is_new(dialect: EventDialect) -> None:
    """Replay from 0 in the old framing and the new, then live, each batch once."""
    async with EventPublisher(dialect=dialect) as publisher:
        for _ in range(5):
            publisher.publish([AllBlocksCleared()])
        async with feed(source_of(publisher)) as running:
            await running.fresh()
            assert running.sink.numbers == [0, 1, 2, 3, 4]
            publisher.publish([AllBlocksCleared()])
            await eventually(lambda: running.sink.numbers == [0, 1, 2, 3, 4, 5])

            assert running.stats.replays == 1
            assert running.stats.last_sequence == 5
        assert running.stats.state is FeedState.BLIND


async def test_a_lost_frame_is_fetched_once() -> None:
    """A gap costs one replay, nothing that was known, and the next batch costs none."""
    async with EventPublisher() as publisher, feed(source_of(publisher)) as running:
        await running.fresh()
        publisher.publish([AllBlocksCleared()])
        publisher.drop_frames(3)
        for _ in range(4):
            publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0, 1, 2, 3, 4])
        await running.fresh()
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0, 1, 2, 3, 4, 5])

        assert (running.stats.gaps, running.stats.replays) == (1, 2)
        assert len(running.sink.told) == 6


async def test_a_lost_frame_before_a_silence_is_found_when_it_gets_quiet() -> None:
    """Nothing follows the lost batch, so the feed asks by itself."""
    quiet = QUICK._replace(quiet_s=0.05)
    async with EventPublisher() as publisher, feed(source_of(publisher), quiet) as running:
        await running.fresh()
        publisher.drop_frames(1)
        publisher.publish([AllBlocksCleared()])

        await eventually(lambda: running.sink.numbers == [0])


async def test_an_idle_restart_is_noticed() -> None:
    """The connection comes back, the last batch does not: a new process, whose history follows."""
    async with EventPublisher() as publisher, feed(source_of(publisher)) as running:
        await running.fresh()
        for _ in range(3):
            publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0, 1, 2])
        await publisher.restart()
        publisher.publish([AllBlocksCleared()])

        await eventually(lambda: running.sink.numbers == [0, 1, 2, 0])
        assert running.sink.told[3] == "restarted"


async def test_a_hint_of_a_restart_is_looked_into() -> None:
    """The same process still has its last batch: nothing is forgotten."""
    async with EventPublisher() as publisher, feed(source_of(publisher)) as running:
        await running.fresh()
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0])
        running.feed.hint_restart()
        await eventually(lambda: running.stats.replays == 2)
        await running.fresh()

        assert len(running.sink.told) == 1


async def test_without_a_replay_port_a_gap_and_a_restart_are_told() -> None:
    """A gap loses everything; numbers that start again are a new process."""
    async with EventPublisher(replay_endpoint=None) as publisher, feed(source_of(publisher)) as running:
        await running.fresh()
        await eventually(publisher.has_subscriber)
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers)
        publisher.drop_frames(1)
        publisher.publish([AllBlocksCleared()])
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers[-1] == 2)
        assert "gap" in running.sink.told[-2:]

        await publisher.restart()
        await eventually(lambda: "reconnected" in running.sink.told and publisher.has_subscriber())
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers[-1] == 0)
        assert "restarted" in running.sink.told[-2:]


async def test_a_replay_that_stops_short_is_resumed() -> None:
    """No end marker: after a time-out the rest is asked for, and nothing is applied twice."""
    async with scripted_publisher() as publisher:
        publisher.answers = [
            [batch(0, b"0"), batch(1, b"1")],
            [old_batch(1, b"1"), old_batch(2, b"2"), [END, b""]],
        ]
        async with feed(publisher.source) as running:
            await running.fresh()

            assert running.sink.told == [(0, b"0"), (1, b"1"), (2, b"2")]
            assert publisher.requests == [0, 1]


async def test_a_replay_port_that_never_answers_is_done_without() -> None:
    """No hang: after a few tries live batches are used as they come."""
    async with scripted_publisher() as publisher, feed(publisher.source) as running:
        await eventually(lambda: publisher.requests)
        publisher.publish(7, b"7")
        await running.fresh()
        await eventually(lambda: running.sink.told == [(7, b"7")])
        publisher.publish(8, b"8")
        await eventually(lambda: running.sink.told == [(7, b"7"), (8, b"8")])

        assert publisher.requests[:3] == [0, 0, 0]


async def test_frames_that_are_no_batch_are_counted() -> None:
    """One frame, a short number, nothing: each costs only itself; two frames without a topic are fine."""
    async with scripted_publisher() as publisher:
        publisher.answers = [[[b"", b"", b"odd", b"x"], [b"", END, b""]]]
        async with feed(publisher.source) as running:
            await running.fresh()
            for frames in ([b"alone"], [b"", b"1234567", b"x"], [b""]):
                publisher.live.send_multipart(frames)
            publisher.live.send_multipart([(0).to_bytes(8, "big"), b"0"])
            await eventually(lambda: running.sink.told == [(0, b"0")])

            assert running.stats.malformed_frames == 4


async def test_a_publisher_that_is_not_there_is_blind_until_it_comes() -> None:
    """Nothing fails and nothing is asked; the connection is made when somebody listens."""
    async with EventPublisher() as publisher:
        source = source_of(publisher)
    async with feed(source) as running:
        await eventually(lambda: "BLIND" in str(running.stats.state))
        assert running.stats.replays == 0
        async with EventPublisher(endpoint=source.endpoint, replay_endpoint=source.replay_endpoint):
            await running.fresh()
        await eventually(lambda: running.stats.state is FeedState.BLIND)


async def test_what_failed_replays_missed_is_asked_for_again() -> None:
    """The port answers later: a look shows that it has more, so all is read again; a look that shows no more is left
    at its first batch."""
    timing = QUICK._replace(recover_s=0.02)
    async with scripted_publisher() as publisher, feed(publisher.source, timing) as running:
        await eventually(lambda: publisher.requests)
        publisher.publish(2, b"2")
        await eventually(lambda: running.sink.told == [(2, b"2")])
        await eventually(lambda: len(publisher.requests) > 3)  # a look that fails too
        whole = [batch(1, b"1"), batch(2, b"2"), [END, b""]]
        publisher.answers = [whole, whole]
        await eventually(lambda: running.sink.told[1:] == ["read_again", (1, b"1"), (2, b"2")])
        await running.fresh()
        publisher.publish(3, b"3")
        await eventually(lambda: running.sink.numbers[-1] == 3)

        assert running.stats.since == 1
        assert not running.sequence.awaits_replay


async def test_a_batch_that_came_late_says_nothing_of_a_stream_gone_silent() -> None:
    """Nobody has to send a request there only to restore trust."""
    async with EventPublisher() as publisher, feed(source_of(publisher), QUICK._replace(quiet_s=0.05)) as running:
        await running.fresh()
        running.stats.late_s = 5.0
        await eventually(lambda: running.stats.late_s == 0.0)


async def test_an_address_that_is_none_is_an_error() -> None:
    """Whoever runs the feed hears of it; no socket stays behind."""
    with zmq.Context() as context:
        wrong = Feed(EventSource("nonsense"), Recorder(), FeedStats(), Sequence(replayable=False), context=context)
        with pytest.raises(zmq.ZMQError):
            await wrong.run()


async def test_what_settles_is_told_once_the_stats_say_so() -> None:
    """State, completeness and the last number fit to what the sink was given, whenever they are told."""
    async with EventPublisher() as publisher:
        publisher.publish([AllBlocksCleared()])
        async with feed(source_of(publisher)) as running:
            seen: list[tuple[FeedState, bool, int]] = []

            def look() -> None:
                stats = running.stats
                seen.append((stats.state, stats.complete, stats.last_sequence))
                assert stats.last_sequence == max(running.sink.numbers, default=-1)

            running.sink.on_settled.append(look)
            await running.fresh()
            publisher.publish([AllBlocksCleared()])
            await eventually(lambda: seen[-1] == (FeedState.FRESH, True, 1))
        assert seen[0] in [(state, False, -1) for state in (FeedState.BLIND, FeedState.SUSPECT)]
        assert seen[-1] == (FeedState.BLIND, True, 1)


async def test_a_batch_that_the_sink_cannot_read_ends_completeness() -> None:
    """The stream goes on, and what comes later does not mend it."""
    async with scripted_publisher() as publisher:
        publisher.answers = [[batch(0, b"0"), [END, b""]]]
        async with feed(publisher.source) as running:
            await running.fresh()
            assert running.stats.complete
            for sequence, payload in enumerate([b"unreadable", b"fine"], 1):
                publisher.publish(sequence, payload)
            await eventually(lambda: running.stats.last_sequence == 2)

            assert not running.stats.complete


async def test_it_goes_on_from_a_state_that_the_replay_confirms() -> None:
    """Only what came since is told, though the buffer holds no more than the state's last batch."""
    async with EventPublisher(buffer_steps=3) as publisher:
        async with feed(source_of(publisher)) as first:
            await first.fresh()
            for number in range(6):
                publisher.publish([AllBlocksCleared()])
                await eventually(lambda: first.stats.last_sequence == number)  # noqa: B023
            state = first.sequence.export()
        for _ in range(2):
            publisher.publish([AllBlocksCleared()])

        async with feed(source_of(publisher), state=state) as second:
            await second.fresh()

            assert second.sink.numbers == [6, 7]
            assert second.stats.complete


@pytest.mark.parametrize(("published", "told"), [(4, "unreplayable"), (0, "restarted")])
async def test_a_state_that_the_replay_denies_is_told_as_a_loss_or_a_restart(published: int, told: str) -> None:
    """The buffer reaches back to after it, or the process is another one."""
    async with EventPublisher(buffer_steps=3) as publisher:
        async with feed(source_of(publisher)) as first:
            await first.fresh()
            publisher.publish([AllBlocksCleared()])
            await eventually(lambda: first.stats.last_sequence == 0)
            state = first.sequence.export()
        if not published:
            await publisher.restart()
        for _ in range(published):
            publisher.publish([AllBlocksCleared()])

        async with feed(source_of(publisher), state=state) as second:
            await second.fresh()

            assert [entry for entry in second.sink.told if isinstance(entry, str)] == [told]
            assert second.stats.complete is (told == "restarted")


async def test_counts_go_on_from_those_of_the_feed_before() -> None:
    """Gaps are counted by each feed anew, and told together."""
    async with EventPublisher() as publisher:
        stats = FeedStats(gaps=5)
        sequence, sink = Sequence(replayable=True), Recorder()
        with zmq.Context() as context:
            after = Feed(source_of(publisher), sink, stats, sequence, context=context, timing=QUICK)
            async with background.running(after.run()):
                await eventually(lambda: stats.state is FeedState.FRESH)
                publisher.drop_frames(1)
                for _ in range(2):
                    publisher.publish([AllBlocksCleared()])
                await eventually(lambda: sink.numbers == [0, 1])

                assert stats.gaps == 6


async def test_a_message_beyond_all_bounds_does_not_blind_for_ever() -> None:
    """ZeroMQ ends the connection over it and does not come back: a new socket does, and nothing after it is lost."""
    timing = QUICK._replace(renew_s=0.05)
    async with EventPublisher() as publisher, feed(source_of(publisher), timing) as running:
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0])
        assert publisher._publish_socket is not None
        publisher._publish_socket.send_multipart([b"", (1).to_bytes(8, "big"), bytes((32 << 20) + 1)])
        await eventually(lambda: running.stats.state is not FeedState.FRESH)
        await running.fresh()
        publisher.publish([AllBlocksCleared()])
        await eventually(lambda: running.sink.numbers == [0, 1])
