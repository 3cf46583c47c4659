"""Acceptor: takes connections from a listening socket on which other processes accept too, and leaves them theirs.

An event loop by itself takes whatever waits. Of a burst that lands on idle processes, the one that wakes first would
get nearly all: measured, 95 of 100 long streams. So after every few connections there is a short rest.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

_log = logging.getLogger(__name__)

#: In a row, before a rest. Together they bound a process to about 2,500 new connections a second, more than it can
#: serve completions on.
_IN_A_ROW = 3
_REST_S = 0.001  # the finest that the event loop knows
_LONG_REST_S = 1.0  # the system has no more descriptors or memory to give


class Acceptor:
    """Begins at once, in a running event loop."""

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float = 10.0,
    ) -> None:
        """``listening`` is its own from here; ``protocol`` makes one for a new connection."""
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._handshake_timeout_s = None if tls is None else handshake_timeout_s
        self._socket = listening
        self._protocol = protocol
        self._began_s = 0.0
        self._in_a_row = 0
        self._connecting: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._closed = False
        listening.setblocking(False)
        self._watch()

    def close(self) -> None:
        """Take those that wait, since there may be nobody else to do so, and close the socket: then no more can come,
        or only to others."""
        if self._closed:
            return
        self._closed = True
        if self._resting is None:
            self._loop.remove_reader(self._socket)
        else:
            self._resting.cancel()
        while self._take():
            pass
        self._socket.close()

    async def wait_closed(self) -> None:
        """Return when those that were taken have their protocols."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _watch(self) -> None:
        self._resting = None
        self._loop.add_reader(self._socket, self._on_readable)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._resting = self._loop.call_later(seconds, self._watch)

    def _on_readable(self) -> None:
        if self._take():
            self._take_turns()

    def _take(self) -> bool:
        """Whether there was one to take. Often another process was faster."""
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            _log.error("no connection can be accepted: %s", error.strerror)
            if not self._closed:
                self._rest(_LONG_REST_S)
            return False
        task = self._loop.create_task(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return True

    def _take_turns(self) -> None:
        now = self._loop.time()
        if now - self._began_s > _REST_S:
            self._began_s, self._in_a_row = now, 0
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            self._rest(_REST_S)

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout_s
            )
        except OSError:  # the client has left, or does not speak TLS
            connection.close()
