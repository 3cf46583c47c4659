"""EdgeServer: the public listening socket and the uvicorn server on it, inside somebody else's event loop.

It knows how to start, to drain and to stop; when to do so is its owner's business. It installs no signal
handlers.
"""

from __future__ import annotations

from gateway.asgi_server import listen_socket, server_of
from gateway.edge.client_protocol import ClientProtocol
from gateway.edge.edge_app import EdgeApp
from gateway.edge.routing import PreparedT

_LAST_WORDS_S = 2.0  # for answers that were broken off to say so
KEEP_ALIVE_S = 75  # above the idle time of clients and of load balancers (60 s), so that they close first


class EdgeServer:
    """``port`` 0 lets the system choose; :attr:`port` says what it chose, before :meth:`run`."""

    def __init__(self, app: EdgeApp[PreparedT], *, host: str, port: int, drain_timeout_s: float = 600.0) -> None:
        self._socket = listen_socket(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._server = server_of(
            app,
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
