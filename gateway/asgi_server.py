"""What the listening ports of the gateway share: a socket bound early, and for the side ports uvicorn without signal
handlers.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import uvicorn

BACKLOG = 2048


class ListenSockets(NamedTuple):
    """The listening sockets of a gateway's three ports, where somebody else made them."""

    public: socket.socket
    metrics: socket.socket
    admin: socket.socket


def listen_socket(host: str, port: int) -> socket.socket:
    """A bound, listening TCP socket. Port 0: any free one. Raises ``OSError`` that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error


def listen_sockets(public: tuple[str, int], metrics: tuple[str, int], admin: tuple[str, int]) -> ListenSockets:
    """All three, or none: raises ``OSError`` that names the address at fault."""
    with contextlib.ExitStack() as on_failure:
        sockets = [on_failure.enter_context(listen_socket(*address)) for address in (public, metrics, admin)]
        on_failure.pop_all()
        return ListenSockets(*sockets)


def port_of(listening: socket.socket) -> int:
    """The port of a listening socket; 0 for one that has none, as in the file system."""
    address = listening.getsockname()
    port: int = address[1] if isinstance(address, tuple) else 0
    return port


def server_of(app: Any, **options: Any) -> SignalFreeServer:
    """A server of ``app`` with the options that the side ports share; ``options`` are uvicorn's."""
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

    def abandon(self) -> None:
        """Break off everything, at once."""
        for server in self.servers if self.started else ():
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # both of uvicorn's protocols have one

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
