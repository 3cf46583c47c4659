"""SideServer: a small ASGI app on a port of its own, beside the public one."""

from __future__ import annotations

import socket
from typing import Any

from gateway.asgi_server import port_of, server_of


class SideServer:
    """``listening`` is its own from here; :attr:`port` is 0 for a socket in the file system. Close it."""

    def __init__(self, app: Any, listening: socket.socket) -> None:
        self._app = app
        self._socket = listening
        self.port = port_of(listening)

    async def run(self) -> None:
        """Serve until cancelled. May be run again after a failure: the socket stays bound."""
        server = server_of(self._app, timeout_graceful_shutdown=1)
        listening = self._socket.dup()
        try:
            await server.serve(sockets=[listening])
        finally:
            server.abandon()
            listening.close()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()
