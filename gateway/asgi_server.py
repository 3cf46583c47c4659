"""What every listening port of the gateway shares: a socket bound early, and uvicorn without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

BACKLOG = 2048


def listen_socket(host: str, port: int) -> socket.socket:
    """A bound, listening TCP socket. Port 0: any free one. Raises ``OSError`` that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error


def server_of(app: Any, **options: Any) -> SignalFreeServer:
    """A server of ``app`` with the options that all ports share; ``options`` are uvicorn's."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        **options,
    )
    return SignalFreeServer(config)


class SignalFreeServer(uvicorn.Server):
    """Signals are the process's business, not a port's."""

    async def finish(self, timeout_s: float) -> None:
        """After the end of serving: let tasks that were cancelled end, and what they wrote get out."""
        state = self.server_state
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=timeout_s)
        for connection in state.connections:
            connection.transport.close()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while state.connections and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - has no event
            await asyncio.sleep(0.01)

    def abandon(self) -> None:
        """Break off everything, at once."""
        for server in self.servers if self.started else ():
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # both of uvicorn's protocols have one

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
