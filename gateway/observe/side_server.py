"""SideServer: a small ASGI app on a port of its own, beside the public one."""

from __future__ import annotations

from typing import Any

import uvicorn

from gateway.asgi_server import SignalFreeServer, listen_socket


class SideServer:
    """``host`` and ``port`` are bound at once; :attr:`port` is the real one."""

    def __init__(self, app: Any, *, host: str, port: int) -> None:
        self._socket = listen_socket(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._server = SignalFreeServer(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._server.abandon()
            self._socket.close()
