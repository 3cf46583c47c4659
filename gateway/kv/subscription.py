"""Subscription and ReplayRequest: the two conversations with a publisher, as sockets and frames.

Own the ZeroMQ sockets and vLLM's framing of a batch. Do not know what is done with one.

Live, from the PUB socket: ``[topic, sequence, payload]``, the sequence as 8 bytes big-endian. Replay, from
the ROUTER socket: the request is ``[b"", first sequence]``, each reply ``[b"", topic, sequence, payload]``
(up to vLLM 0.25 without the topic), the end a sequence of -1. All are read from their end. A request that
the publisher does not understand gets no reply at all.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Self

import zmq
from zmq.utils.monitor import parse_monitor_message

from gateway.fleet.event_source import EventSource
from gateway.kv.inbox import Inbox

_SEQUENCE_BYTES = 8
_REPLAY_END = (-1).to_bytes(_SEQUENCE_BYTES, "big", signed=True)
_LIVE_HIGH_WATER_MARK = 50_000  # messages; beyond it ZeroMQ drops, which shows as a gap
_MAX_MESSAGE_BYTES = 32 << 20  # a step's events of a very large batch are a hundredth of it


class Batch(NamedTuple):
    """One numbered payload."""

    sequence: int
    payload: bytes


class MalformedFramesError(ValueError):
    """A message that is no numbered payload."""


class Subscription:
    """The live stream. ``wake`` is set when batches or news of the connection may have come."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], source: EventSource, wake: asyncio.Event) -> None:
        """Raises ``zmq.ZMQError`` for an address that is none."""
        self._socket = socket = context.socket(zmq.SUB)
        _prepare(socket)
        socket.setsockopt(zmq.RCVHWM, _LIVE_HIGH_WATER_MARK)
        socket.subscribe(source.topic)
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._batches = Inbox(socket, wake)
        self._news = Inbox(monitor, wake)
        try:
            socket.connect(source.endpoint)
        except zmq.ZMQError:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def take(self) -> Batch | None:
        """The next batch; ``None``: there is none now. Raises :class:`MalformedFramesError`."""
        frames = self._batches.take()
        return None if frames is None else _read(frames)

    def take_connected(self) -> bool | None:
        """The next change of the connection: made or lost; ``None``: no change."""
        frames = self._news.take()
        if frames is None:
            return None
        return bool(parse_monitor_message(frames)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def _close(self) -> None:
        self._socket.disable_monitor()
        self._news.close()
        self._batches.close()


class ReplayRequest:
    """One replay on a connection of its own, so that no reply of an earlier one can be taken for it."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, first: int, wake: asyncio.Event) -> None:
        """Raises ``zmq.ZMQError`` for an address that is none."""
        socket = context.socket(zmq.DEALER)
        _prepare(socket)
        socket.setsockopt(zmq.RCVHWM, 0)  # bounded by the publisher's buffer, and drained as it comes
        self.ended = False
        self._inbox = Inbox(socket, wake)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        self._inbox.send([b"", first.to_bytes(_SEQUENCE_BYTES, "big")])

    def take(self) -> Batch | None:
        """As :meth:`Subscription.take`; ``None`` also once :attr:`ended`."""
        frames = None if self.ended else self._inbox.take()
        if frames is None:
            return None
        if len(frames) >= 2 and frames[-2] == _REPLAY_END:
            self.ended = True
            return None
        return _read(frames)

    def close(self) -> None:
        """Idempotent."""
        self._inbox.close()


def _prepare(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.IPV6, 1)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
    # An address that never answers is not waited for: the next try resolves the name again. (ZeroMQ: as long as TCP.)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, 2000)  # milliseconds
    socket.setsockopt(zmq.RECONNECT_IVL, 100)  # milliseconds, doubled up to the maximum
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5000)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)  # a host that vanished never says so
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 10)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)


def _read(frames: list[bytes]) -> Batch:
    if len(frames) < 2 or len(frames[-2]) != _SEQUENCE_BYTES:
        raise MalformedFramesError(f"{len(frames)} frames")
    return Batch(int.from_bytes(frames[-2], "big"), frames[-1])
