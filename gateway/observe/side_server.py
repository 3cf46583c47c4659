"""SideServer: a small ASGI app on a port of its own, beside the public one."""

from __future__ import annotations

from typing import Any

from gateway.asgi_server import listen_socket, server_of


class SideServer:
    """``host`` and ``port`` are bound at once; :attr:`port` is the real one. Close it."""

    def __init__(self, app: Any, *, host: str, port: int) -> None:
        self._app = app
        self._socket = listen_socket(host, port)
        self.port: int = self._socket.getsockname()[1]

    async def run(self) -> None:
        """Serve until cancelled. May be run again after a failure: the socket stays bound."""
        server = server_of(self._app, timeout_graceful_shutdown=1)
        try:
            await server.serve(sockets=[self._socket.dup()])
        finally:
            server.abandon()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()
