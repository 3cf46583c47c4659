"""EventPublisher: a replica's KV events on real ZeroMQ sockets, framed as vLLM frames them.

Owns the PUB socket (an XPUB, the same on the wire), the ROUTER socket that replays, the sequence and the replay
buffer. Does not know where events come from. Live: ``[topic, sequence as 8 bytes big-endian, payload]``. Replay: a
DEALER sends ``[b"", first sequence]`` and gets ``[b"", topic, sequence, payload]`` for each buffered batch, then
``[b"", b"", -1, b""]``; releases before 0.26 leave the topic frame out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Self

import zmq
import zmq.asyncio

from loadtest.replica.kv_events import EventDialect, KVEvent, encode_batch

_LOGGER = logging.getLogger(__name__)
_HIGH_WATER_MARK = 100_000  # batches, as vLLM's default
_SEQUENCE_BYTES = 8
_SUBSCRIBE = b"\x01"  # how an XPUB's news of a first subscription begins; with 0 that of the last one gone
_REPLAY_END = (-1).to_bytes(_SEQUENCE_BYTES, "big", signed=True)
ANY_PORT = "tcp://127.0.0.1:0"


def wall_clock() -> float:
    """Seconds since the epoch."""
    return datetime.now(UTC).timestamp()


class _Batch(NamedTuple):
    """One that is sent late. ``due_s``: of the loop's clock; ``stored_s``: when it happened, since the epoch."""

    due_s: float
    events: Sequence[KVEvent]
    stored_s: float


class EventPublisher:
    """Use as ``async with``. Endpoints may end in port 0; the chosen ones stay the same over a restart."""

    def __init__(
        self,
        *,
        endpoint: str = ANY_PORT,
        replay_endpoint: str | None = ANY_PORT,
        topic: str = "",
        dialect: EventDialect = EventDialect.V0_32,
        buffer_steps: int = 10_000,
        high_water_mark: int = _HIGH_WATER_MARK,
        rank: int = 0,
        clock: Callable[[], float] = wall_clock,
    ) -> None:
        self.endpoint = endpoint
        self.replay_endpoint = replay_endpoint
        self.topic = topic
        self.next_sequence = 0
        self.buffer_steps = buffer_steps
        self._dialect = dialect
        self._high_water_mark = high_water_mark
        self._rank = rank
        self._clock = clock
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._frames_to_drop = 0
        self._late: deque[_Batch] = deque()  # in order of their time
        self._timer: asyncio.TimerHandle | None = None
        self._frozen: list[tuple[int, bytes]] | None = None  # what replays are of, instead of the buffer
        self._subscribed = False
        self._context: zmq.asyncio.Context | None = None
        self._publish_socket: zmq.Socket[bytes] | None = None
        self._replay_socket: zmq.asyncio.Socket | None = None
        self._replay_task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<EventPublisher {self.endpoint} next {self.next_sequence}, {len(self._buffer)} buffered>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Bind both sockets. Raises ``zmq.ZMQError`` where a port is taken."""
        self._context = zmq.asyncio.Context()
        self._publish_socket = zmq.Socket(self._context, zmq.XPUB)  # a PUB that tells of its subscriptions
        self._publish_socket.set_hwm(self._high_water_mark)
        self.endpoint = _bind(self._publish_socket, self.endpoint)
        if self.replay_endpoint is not None:
            self._replay_socket = self._context.socket(zmq.ROUTER)
            self.replay_endpoint = _bind(self._replay_socket, self.replay_endpoint)
            self._replay_task = asyncio.get_running_loop().create_task(self._serve_replays(self._replay_socket))

    async def stop(self) -> None:
        """Close both sockets at once, as a process that dies does."""
        if self._replay_task is not None:
            self._replay_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._replay_task
            self._replay_task = None
        if self._timer is not None:
            self._timer.cancel()
        self._late.clear()
        for socket in (self._publish_socket, self._replay_socket):
            if socket is not None:
                socket.close(linger=0)
        self._publish_socket = self._replay_socket = None
        self._subscribed = False
        if self._context is not None:
            self._context.term()  # returns when the ports are free again
            self._context = None

    async def restart(self) -> None:
        """A new process on the same ports."""
        await self.stop()
        self.renew()
        await self.start()

    def renew(self) -> None:
        """Sequence 0, nothing to replay."""
        self.next_sequence = 0
        self._buffer.clear()
        self._frames_to_drop = 0

    def publish(self, events: Sequence[KVEvent], *, delay_s: float = 0.0) -> None:
        """Send one batch, unless it is empty, and keep it for replay: after ``delay_s``, and in order."""
        if not events:
            return
        if not delay_s and not self._late:
            self._send(events, self._clock())
            return
        now_s = asyncio.get_running_loop().time()
        due_s = max(now_s + delay_s, self._late[-1].due_s if self._late else 0.0)
        self._late.append(_Batch(due_s, events, self._clock()))
        self._send_late()

    def _send_late(self) -> None:
        """Those that are due by now; the next one calls again."""
        loop = asyncio.get_running_loop()
        while self._late and self._late[0].due_s <= loop.time():
            _, events, stored_s = self._late.popleft()
            self._send(events, stored_s)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(self._late[0].due_s, self._send_late) if self._late else None

    def _send(self, events: Sequence[KVEvent], stored_s: float) -> None:
        payload = encode_batch(events, stored_s, self._rank, self._dialect)
        sequence = self.next_sequence
        self.next_sequence += 1
        self._buffer.append((sequence, payload))
        if self._frames_to_drop:
            self._frames_to_drop -= 1
        elif self._publish_socket is not None:
            self._publish_socket.send_multipart([self.topic.encode(), _sequence_frame(sequence), payload])

    def has_subscriber(self) -> bool:
        """Whether somebody's subscription has arrived: what was published before is not sent to them."""
        with contextlib.suppress(zmq.Again):
            while self._publish_socket is not None:
                self._subscribed = self._publish_socket.recv(zmq.NOBLOCK)[:1] == _SUBSCRIBE
        return self._subscribed

    def drop_frames(self, count: int) -> None:
        """Lose the next ``count`` live frames; a replay still has them."""
        self._frames_to_drop = count

    def forget_buffer(self) -> None:
        """Lose what a replay could give, so that a gap cannot be covered."""
        self._buffer.clear()

    def freeze_replay(self) -> None:
        """Replay what there is now for ever, over restarts too, as another process on the port would."""
        self._frozen = list(self._buffer)

    async def _serve_replays(self, router: zmq.asyncio.Socket) -> None:
        while True:
            frames = await router.recv_multipart()
            if len(frames) == 3:
                await self._replay(router, frames[:2], int.from_bytes(frames[2], "big"))
            else:
                _LOGGER.warning("a replay request of %d frames is not understood", len(frames))

    async def _replay(self, router: zmq.asyncio.Socket, envelope: list[bytes], first: int) -> None:
        for sequence, payload in list(self._buffer) if self._frozen is None else self._frozen:
            if sequence >= first:
                await router.send_multipart([*envelope, *self._reply(_sequence_frame(sequence), payload)])
        await router.send_multipart([*envelope, *self._reply(_REPLAY_END, b"")])

    def _reply(self, sequence: bytes, payload: bytes) -> list[bytes]:
        if not self._dialect.replays_topic:
            return [sequence, payload]
        topic = b"" if sequence == _REPLAY_END else self.topic.encode()
        return [topic, sequence, payload]


def _bind(socket: zmq.Socket[bytes] | zmq.asyncio.Socket, endpoint: str) -> str:
    """What to tell of it: the address as it was given, which vLLM repeats with its ``*``, unless its port was any."""
    socket.bind(endpoint)
    if not endpoint.endswith((":0", ":*")):
        return endpoint
    bound = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    assert isinstance(bound, str)  # noqa: S101
    return bound


def _sequence_frame(sequence: int) -> bytes:
    return sequence.to_bytes(_SEQUENCE_BYTES, "big")
