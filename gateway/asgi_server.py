"""What every listening port of the gateway shares: a socket bound early, and uvicorn without signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import uvicorn

from gateway.acceptor import Acceptor

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


def server_of(app: Any, *, shared: bool = False, **options: Any) -> SignalFreeServer:
    """A server of ``app`` with the options that all ports share; ``options`` are uvicorn's.

    ``shared``: other processes accept on the same sockets.
    """
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
    return SharingServer(config) if shared else SignalFreeServer(config)


class SignalFreeServer(uvicorn.Server):
    """Signals are the process's business, not a port's."""

    def stop_accepting(self) -> None:
        """Take no more connections; those that are open stay. Others may go on accepting on the same socket."""
        for server in self.servers if self.started else ():
            server.close()

    async def settle(self) -> None:
        """After :meth:`stop_accepting`: return when every connection that was taken is among those it counts."""
        await asyncio.sleep(0)

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
        self.stop_accepting()
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # both of uvicorn's protocols have one

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class SharingServer(SignalFreeServer):
    """One of several processes that accept on the same sockets: it takes its turns."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        acceptors = [Acceptor(listening, self._protocol) for listening in sockets or ()]
        self.servers = cast("list[asyncio.Server]", acceptors)

    async def settle(self) -> None:
        for server in self.servers if self.started else ():
            await server.wait_closed()

    def _protocol(self) -> asyncio.Protocol:
        """As uvicorn makes one."""
        make = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return make(config=self.config, server_state=self.server_state, app_state={}, _loop=None)
