"""Feed: one replica's event stream, its batches handed on once and in order.

Owns the conversations with the publisher and their timing. What is applied, when a replay is needed and
when the engine process is another one, :class:`~gateway.kv.sequence.Sequence` decides; what a batch
contains the sink knows.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import NamedTuple, Protocol

import zmq

from gateway.fleet.event_source import EventSource
from gateway.kv.feed_stats import FeedStats
from gateway.kv.sequence import Apply, Lost, Replay, Restarted, Sequence, Step
from gateway.kv.subscription import Batch, MalformedFramesError, ReplayRequest, Subscription
from gateway.kv.trust import FeedState

_LOGGER = logging.getLogger(__name__)
#: What one turn may take before the event loop gets its turn: about two milliseconds of decoding.
_TURN_BYTES = 64 << 10


class FeedTiming(NamedTuple):
    """Seconds."""

    replay_timeout_s: float = 3.0  # without any reply; an engine that is busy answers late
    retry_s: float = 0.5  # before a failed replay is asked for again, doubled with each failure
    quiet_s: float = 30.0  # without any batch, before the last one is asked for again
    blind_after_s: float = 10.0  # without a connection
    renew_s: float = 20.0  # without a connection, before the socket is made anew
    recover_s: float = 15.0  # after replays failed, before what was missed is asked for again


DEFAULT_TIMING = FeedTiming()


class FeedSink(Protocol):
    """Who uses the batches. Called on the event loop, synchronously."""

    def batch(self, sequence: int, payload: bytes) -> bool:
        """The next batch; whether nothing in it may have told of a loss that could not be read."""
        ...

    def lost(self, reason: str) -> None:
        """Batches before the next one are missing for good."""
        ...

    def restarted(self) -> None:
        """The next batch is the first known one of a new engine process."""
        ...

    def caught_up(self) -> None:
        """From now on what was told is all there is, until something is lost again."""
        ...

    def settled(self) -> None:
        """The stats tell of all that was told until now."""
        ...


class Feed:
    """Fit for one :meth:`run`. Writes the parts of ``stats`` that concern the stream, and all of ``sequence``."""

    def __init__(
        self,
        source: EventSource,
        sink: FeedSink,
        stats: FeedStats,
        sequence: Sequence,
        *,
        context: zmq.Context[zmq.Socket[bytes]],
        timing: FeedTiming = DEFAULT_TIMING,
    ) -> None:
        self._source = source
        self._sink = sink
        self._stats = stats
        self._context = context
        self._timing = timing
        self._sequence = sequence
        self._gaps_before = stats.gaps
        self._wake = asyncio.Event()
        self._replay: ReplayRequest | None = None
        self._replay_first = 0
        self._replay_deadline = math.inf  # when the running replay has failed
        self._replay_due = math.inf  # when a replay that failed is asked for again
        self._connected = False
        self._blind_at = 0.0
        self._renew_at = 0.0
        self._heard_at = math.inf
        self._recover_at = math.inf
        self._hinted = False

    def __repr__(self) -> str:
        return f"<Feed {self._source.endpoint} {self._stats.state.label} {self._sequence!r}>"

    def hint_restart(self) -> None:
        """Somebody saw that the engine process is a new one: look."""
        self._hinted = True
        self._wake.set()

    async def run(self) -> None:
        """Follow the stream until cancelled. Raises ``zmq.ZMQError`` for an address that is none.

        A socket without a connection for long is made anew: the host's name is resolved again, and ZeroMQ does not
        reconnect by itself after everything that can end a connection.
        """
        clock = asyncio.get_running_loop().time
        try:
            while True:
                with Subscription(self._context, self._source, self._wake) as subscription:
                    self._renew_at = clock() + self._timing.renew_s
                    while self._connected or clock() < self._renew_at:
                        self._turn(subscription, clock())
                        await self._rest(clock())
                _LOGGER.debug("no connection to %s: trying on a new socket", self._source.endpoint)
        finally:
            self._stop_replay()
            self._stats.state = FeedState.BLIND
            self._sink.settled()

    async def _rest(self, now: float) -> None:
        """Until there is something to read or something is due."""
        renew_at = math.inf if self._connected else self._renew_at
        replay_at = min(self._replay_deadline, self._replay_due, self._recover_at)
        due = min(replay_at, self._quiet_at(), self._blind_deadline(now), renew_at)
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(None if due == math.inf else max(0.0, due - now)):
                await self._wake.wait()
        except TimeoutError:
            return

    def _turn(self, subscription: Subscription, now: float) -> None:
        """Read what there is; the replay only once nothing live is left that came before it.

        Batches and news of the connection come by two ways, in no common order: batches read before the news
        of a connection may be the old process's or the new one's, so they go between the two halves of it.
        """
        self._wake.clear()
        batches, all_read = self._read_live(subscription)
        news = self._read_news(subscription, now)
        if news:
            self._sequence.disconnected()
        for batch in batches:
            self._heard_at = now
            self._take(self._sequence.live(batch.sequence, batch.payload), now)
        for _ in range(sum(news)):
            self._take(self._sequence.connected(), now)
        self._use_hint(now)
        if not (all_read and self._read_replay(now)):
            self._wake.set()
        self._check_clock(now)
        self._settle(self._state(now))

    def _settle(self, state: FeedState) -> None:
        stats, sequence = self._stats, self._sequence
        stats.gaps = self._gaps_before + sequence.gaps
        stats.last_sequence = sequence.last
        stats.since = sequence.since
        before, stats.state = stats.state, state
        if state is FeedState.FRESH and before is not state:
            self._sink.caught_up()
        self._sink.settled()

    def _read_live(self, subscription: Subscription) -> tuple[list[Batch], bool]:
        """Batches that came, and whether these are all."""
        batches: list[Batch] = []
        budget = _TURN_BYTES
        while budget > 0:
            try:
                batch = subscription.take()
            except MalformedFramesError:
                self._stats.malformed_frames += 1
                continue
            if batch is None:
                return batches, True
            budget -= len(batch.payload) + 64
            batches.append(batch)
        return batches, False

    def _read_news(self, subscription: Subscription, now: float) -> list[bool]:
        """Each time the connection was made or lost since the last call."""
        news: list[bool] = []
        while (connected := subscription.take_connected()) is not None:
            news.append(connected)
            self._connected = connected
            self._heard_at = now
            if not connected:
                self._blind_at = now + self._timing.blind_after_s
                self._renew_at = now + self._timing.renew_s
        return news

    def _use_hint(self, now: float) -> None:
        if self._hinted:
            self._hinted = False
            self._take(self._sequence.restart_hinted(), now)

    def _read_replay(self, now: float) -> bool:
        """Whether all there was has been read."""
        budget = _TURN_BYTES
        while (replay := self._replay) is not None and budget > 0:
            batch = self._take_replayed(replay)
            if replay.ended:
                self._stop_replay()
                self._take(self._sequence.replay_ended(), now)
                self._heard_at = now
                continue
            if batch is None:
                return True
            budget -= len(batch.payload) + 64
            self._replay_deadline = now + self._timing.replay_timeout_s
            self._take(self._sequence.replayed(batch.sequence, batch.payload), now)
            if not self._sequence.awaits_replay:
                self._stop_replay()
        return self._replay is None

    def _take_replayed(self, replay: ReplayRequest) -> Batch | None:
        while True:
            try:
                return replay.take()
            except MalformedFramesError:
                self._stats.malformed_frames += 1

    def _check_clock(self, now: float) -> None:
        if now >= self._replay_deadline:
            self._stop_replay()
            self._take(self._sequence.replay_failed(), now)
        if now >= self._replay_due:
            self._start_replay(now)
        if now >= self._quiet_at():
            self._heard_at = now
            self._stats.late_s = 0.0  # as the last batch came so long ago, it tells nothing of the next
            self._take(self._sequence.quiet(), now)
        if now >= self._recover_at:
            self._take(self._sequence.recover(), now)
        recoverable = self._connected and self._sequence.recoverable
        self._recover_at = min(self._recover_at, now + self._timing.recover_s) if recoverable else math.inf

    def _take(self, steps: list[Step], now: float) -> None:
        for step in steps:
            match step:
                case Apply(sequence, payload):
                    if not self._sink.batch(sequence, payload):
                        self._sequence.unreadable()
                case Lost(reason):
                    self._sink.lost(reason)
                case Restarted():
                    self._sink.restarted()
                case Replay(first):
                    self._schedule_replay(first, now)

    def _schedule_replay(self, first: int, now: float) -> None:
        self._stop_replay()
        self._replay_first = first
        failures = self._sequence.failures
        if failures:
            self._replay_due = now + self._timing.retry_s * 2 ** (failures - 1)
        else:
            self._start_replay(now)

    def _start_replay(self, now: float) -> None:
        if self._source.replay_endpoint is None:
            return
        self._replay_due = math.inf
        self._replay_deadline = now + self._timing.replay_timeout_s
        self._replay = ReplayRequest(self._context, self._source.replay_endpoint, self._replay_first, self._wake)
        self._stats.replays += 1

    def _stop_replay(self) -> None:
        if self._replay is not None:
            self._replay.close()
        self._replay = None
        self._replay_deadline = self._replay_due = math.inf

    def _quiet_at(self) -> float:
        idle = self._connected and not self._sequence.replaying
        return self._heard_at + self._timing.quiet_s if idle else math.inf

    def _blind_deadline(self, now: float) -> float:
        return self._blind_at if not self._connected and self._blind_at > now else math.inf

    def _state(self, now: float) -> FeedState:
        if not self._connected:
            return FeedState.SUSPECT if now < self._blind_at else FeedState.BLIND
        return FeedState.SUSPECT if self._sequence.doubtful else FeedState.FRESH
