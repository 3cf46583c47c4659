"""EdgeServer: the public listening socket and the uvicorn server on it, inside somebody else's event loop.

It knows how to start, to drain and to stop; when to do so is its owner's business. It installs no signal
handlers.
"""

from __future__ import annotations

import asyncio
import socket

from gateway.asgi_server import port_of, server_of
from gateway.edge.client_protocol import ClientProtocol
from gateway.edge.edge_app import EdgeApp
from gateway.edge.routing import PreparedT

_LAST_WORDS_S = 2.0  # for answers that were broken off to say so
_GLANCE_S = 0.02
KEEP_ALIVE_S = 75  # above the idle time of clients and of load balancers (60 s), so that they close first


class EdgeServer:
    """``listening`` is its own from here; ``shared``: other processes accept on the same socket."""

    def __init__(
        self,
        app: EdgeApp[PreparedT],
        listening: socket.socket,
        *,
        shared: bool = False,
        drain_timeout_s: float = 600.0,
    ) -> None:
        self._app = app
        self._socket = listening
        self.port = port_of(listening)
        self._server = server_of(
            app,
            shared=shared,
            http=ClientProtocol,
            interface="asgi3",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(drain_timeout_s)),
        )

    @property
    def started(self) -> bool:
        return self._server.started

    @property
    def connections(self) -> int:
        """Client connections that are open."""
        return len(self._server.server_state.connections)

    def part(self) -> None:
        """Let every answer whose head has not gone out yet be the last on its connection, and say so.

        A client that is told opens another connection; one whose idle connection is closed may just be sending.
        """
        self._app.part()
        for connection in self._server.server_state.connections:
            if isinstance(connection, ClientProtocol):
                connection.part()

    async def hand_over(self, patience_s: float) -> None:
        """Let others take new connections; return when the clients have left, after ``patience_s``, or on a drain.

        A client that has just come, and not asked yet, gets its answer.
        """
        self._server.stop_accepting()
        await self._server.settle()
        clock = asyncio.get_running_loop().time
        deadline = clock() + patience_s
        while self.connections and clock() < deadline and not self._server.should_exit:  # noqa: ASYNC110 - uvicorn's connections have no event
            await asyncio.sleep(_GLANCE_S)

    def drain(self) -> None:
        """Take no more connections and let what runs finish; then :meth:`run` returns."""
        self._server.should_exit = True

    async def run(self) -> None:
        """Serve until :meth:`drain` is through, or until cancelled, which breaks off what runs."""
        try:
            await self._server.serve(sockets=[self._socket])
            await self._server.finish(_LAST_WORDS_S)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Break off everything, at once."""
        self._server.abandon()
        self._socket.close()
