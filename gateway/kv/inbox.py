"""Inbox: a ZeroMQ socket on the event loop, read without ever blocking it.

Not ``zmq.asyncio``: that costs a future and a task switch for each message, here a burst costs one wake-up.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

import zmq


class Inbox:
    """Owns ``socket`` and closes it. Sets ``wake`` when messages may have come; then :meth:`take` until
    ``None``.

    ZeroMQ tells of news only once: whoever stops before the ``None`` must set ``wake`` itself.
    """

    def __init__(self, socket: zmq.Socket[bytes], wake: asyncio.Event) -> None:
        self._socket = socket
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._fd = socket.fileno()
        self._loop.add_reader(self._fd, wake.set)
        wake.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, frames: list[bytes]) -> None:
        """Send without waiting; dropped where the peer is not there and its queue is full."""
        with contextlib.suppress(zmq.Again):
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        self._wake.set()

    def take(self) -> list[bytes] | None:
        """The next message's frames; ``None``: there is none now."""
        try:
            return self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def close(self) -> None:
        """Idempotent."""
        if not self._socket.closed:
            self._loop.remove_reader(self._fd)
            self._socket.close(linger=0)
