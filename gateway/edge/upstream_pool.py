"""UpstreamPool: connections to servers, kept while they are good for another request.

It owns every upstream socket, from the connect to the close, and the two clocks that no single request
should pay for: how long a connection may idle, and how long a replica may be silent. It does not know
requests.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from math import inf

from gateway.edge.outbox import Outbox
from gateway.edge.upstream_connection import UpstreamConnection, UpstreamError
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome

_SWEEP_S = 0.5


class UpstreamPool:
    """Made and used on one event loop. ``repr`` shows its state.

    ``idle_timeout_s`` must be below the servers' keep-alive time (vLLM's: 5 s), or a request meets a
    closing socket. ``first_byte_timeout_s`` bounds the wait for an answer's first body byte (``None``: nothing
    does), ``silence_timeout_s`` any silence after it; both are accurate to a second, and time during which a slow
    client kept us from reading does not count. ``heard`` is told twice a second from which origins bytes of
    answers' bodies came.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = 5.0,
        idle_timeout_s: float = 4.0,
        first_byte_timeout_s: float | None = None,
        silence_timeout_s: float = 300.0,
        heard: Callable[[Origin], None] = lambda _: None,
        outbox: Outbox | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._silent_sweeps = _sweeps(silence_timeout_s)
        self._first_byte_sweeps = inf if first_byte_timeout_s is None else _sweeps(first_byte_timeout_s)
        self._heard = heard
        self.outbox = outbox or Outbox()
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._connections: set[UpstreamConnection] = set()
        self.stale = 0  # kept connections that turned out to be closed: counted by who was sending
        self._idle: dict[Origin, list[UpstreamConnection]] = {}  # newest last
        self._sweeper: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<UpstreamPool {self.busy} busy, {self.idle} idle>"

    @property
    def busy(self) -> int:
        return sum(connection.busy for connection in self._connections)

    @property
    def idle(self) -> int:
        return len(self._connections) - self.busy

    def take_idle(self, origin: Origin) -> UpstreamConnection | None:
        """The connection to ``origin`` that was used last, if one is still good."""
        waiting = self._idle.get(origin)
        while waiting:
            connection = waiting.pop()
            if connection.closed:
                continue
            if self._loop.time() - connection.idle_since_s < self._idle_timeout_s:
                return connection
            connection.abort()
        return None

    async def connect(self, origin: Origin) -> UpstreamConnection:
        """A new connection. Raises ``UpstreamError`` (``UNREACHABLE``)."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await self._loop.create_connection(
                    lambda: UpstreamConnection(origin, self),
                    origin.host,
                    origin.port,
                    ssl=self._tls_context() if origin.tls else None,
                )
        except (
            OSError,
            UnicodeError,
        ) as error:  # TimeoutError and SSLError are OSErrors; a bad host name is the other
            raise UpstreamError(
                Outcome.UNREACHABLE, f"{origin.netloc}: {str(error) or type(error).__name__}"
            ) from error
        self._connections.add(connection)
        self._watch()
        return connection

    def close(self) -> None:
        """Drop every connection."""
        for connection in list(self._connections):
            connection.fail(Outcome.BROKEN, "the gateway is closing")
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    # Called by connections

    def released(self, connection: UpstreamConnection) -> None:
        connection.idle_since_s = self._loop.time()
        self._idle.setdefault(connection.origin, []).append(connection)

    def lost(self, connection: UpstreamConnection) -> None:
        self._connections.discard(connection)
        waiting = self._idle.get(connection.origin)
        if waiting and connection in waiting:
            waiting.remove(connection)

    # The rest

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _watch(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        self._drop_idle(self._loop.time() - self._idle_timeout_s)
        busy = [connection for connection in self._connections if connection.busy]
        for origin in {c.origin for c in busy if c.has_body and c.received_bytes != c.swept_bytes}:
            self._heard(origin)
        for connection in busy:
            self._listen_for(connection)
        if self._connections:
            self._watch()

    def _drop_idle(self, before_s: float) -> None:
        for origin, waiting in list(self._idle.items()):
            fresh = [c for c in waiting if c.idle_since_s > before_s]
            for connection in waiting[: len(waiting) - len(fresh)]:  # the oldest come first
                connection.abort()
            if fresh:
                self._idle[origin] = fresh
            else:
                del self._idle[origin]

    def _listen_for(self, connection: UpstreamConnection) -> None:
        heard = connection.received_bytes != connection.swept_bytes
        connection.swept_bytes = connection.received_bytes
        if connection.has_body and (heard or connection.reading_paused):
            connection.silent_sweeps = 0
            return
        connection.silent_sweeps += 1
        if not connection.has_body:  # whatever came of the head
            if connection.silent_sweeps > self._first_byte_sweeps:
                connection.fail(Outcome.FIRST_BYTE_TIMEOUT, "its first byte did not come in time")
        elif connection.silent_sweeps > self._silent_sweeps:
            connection.fail(Outcome.CHUNK_TIMEOUT, "it owes the rest of an answer and is silent")


def _sweeps(seconds: float) -> int:
    return max(1, round(seconds / _SWEEP_S))
