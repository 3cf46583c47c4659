"""EdgeServer: the public listening socket, and the life of the connections that come from it.

It knows how to start, to drain and to stop; when to do so is its owner's business.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from gateway.acceptor import Acceptor
from gateway.asgi_server import BACKLOG, port_of
from gateway.edge.client_connections import (
    MAX_UPLOADS_BYTES,
    SEND_TIMEOUT_S,
    UPLOAD_TIMEOUT_S,
    ClientConnections,
)
from gateway.edge.client_request import RequestHandler
from gateway.edge.dead_hosts import notice_dead_hosts
from gateway.edge.outbox import Outbox

_LAST_WORDS_S = 2.0  # for answers that were broken off to say so
HANDSHAKE_TIMEOUT_S = 10.0


class EdgeServer:
    """``listening`` is its own from here; ``shared``: other processes accept on the same socket."""

    def __init__(
        self,
        handler: RequestHandler,
        listening: socket.socket,
        *,
        shared: bool = False,
        tls: ssl.SSLContext | None = None,
        outbox: Outbox | None = None,
        upload_timeout_s: float = UPLOAD_TIMEOUT_S,
        send_timeout_s: float = SEND_TIMEOUT_S,
        max_uploads_bytes: int = MAX_UPLOADS_BYTES,
        drain_timeout_s: float = 600.0,
    ) -> None:
        """``upload_timeout_s``, ``send_timeout_s`` and ``max_uploads_bytes``: see :class:`ClientConnections`.
        ``drain_timeout_s``: how long what runs may take after :meth:`drain`.
        """
        notice_dead_hosts(listening)
        self._handler = handler
        self._socket = listening
        self._shared = shared
        self._tls = tls
        self._drain_timeout_s = drain_timeout_s
        self._clients = ClientConnections(
            handler,
            outbox=outbox,
            upload_timeout_s=upload_timeout_s,
            send_timeout_s=send_timeout_s,
            max_uploads_bytes=max_uploads_bytes,
        )
        self._accepting: asyncio.AbstractServer | Acceptor | None = None
        self._draining = asyncio.Event()
        self._waits: set[asyncio.Timeout] = set()
        self.port = port_of(listening)
        self.started = False

    @property
    def connections(self) -> int:
        """Client connections that are open."""
        return len(self._clients)

    @property
    def draining(self) -> bool:
        """Whether :meth:`drain` was called."""
        return self._draining.is_set()

    @property
    def upload_bytes(self) -> int:
        """Of requests' bodies that are being uploaded, or wait behind others of their connection."""
        return self._clients.uploads.held_bytes

    def part(self) -> None:
        """Let every answer whose head has not gone out yet be the last on its connection, and say so.

        A client that is told opens another connection; one whose idle connection is closed may just be sending.
        """
        self._clients.part()

    async def hand_over(self, patience_s: float) -> None:
        """Let others take new connections; return when the clients have left, after ``patience_s``, or on a drain.

        A client that has just come, and not asked yet, gets its answer.
        """
        self._stop_accepting()
        if not self._draining.is_set():
            await self._wait_none(patience_s)

    def drain(self) -> None:
        """Take no more connections and let what runs finish; then :meth:`run` returns. The second time: break off what
        runs.
        """
        if self._draining.is_set():
            self._drain_timeout_s = 0.0
        self._stop_accepting()
        self._clients.drain()
        self._draining.set()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Serve until :meth:`drain` is through, or until cancelled, which breaks off what runs."""
        try:
            if not self._draining.is_set():
                await self._start()
            await self._draining.wait()
            if not await self._wait_none(self._drain_timeout_s):
                self._handler.stop()
                self._clients.stop_uploads()
                await self._wait_none(_LAST_WORDS_S)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Break off everything, at once."""
        self._stop_accepting()
        try:
            self._handler.stop()
        finally:
            self._clients.abort()
            self._socket.close()

    async def _start(self) -> None:
        if self._shared:
            self._accepting = Acceptor(
                self._socket, self._clients.connect, tls=self._tls, handshake_timeout_s=HANDSHAKE_TIMEOUT_S
            )
        else:
            self._accepting = await asyncio.get_running_loop().create_server(
                self._clients.connect,
                sock=self._socket,
                backlog=BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_TIMEOUT_S,
            )
        self.started = True

    def _stop_accepting(self) -> None:
        """Those that are open stay. Others may go on accepting on the same socket."""
        if self._accepting is not None:
            self._accepting.close()

    async def _settle(self) -> None:
        """After :meth:`_stop_accepting`: return when every connection that was taken is among those it counts."""
        if isinstance(self._accepting, Acceptor):
            await self._accepting.wait_closed()
        else:
            await asyncio.sleep(0)

    async def _wait_none(self, timeout_s: float) -> bool:
        """Wait until no connection is open or about to be, but not longer than ``timeout_s`` or to the next drain.

        Returns whether none is.
        """
        try:
            async with asyncio.timeout(timeout_s) as wait:
                self._waits.add(wait)
                try:
                    await self._settle()
                    await self._clients.wait_none()
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            return False
        return True
