"""Stands in for the application behind the public port: says what is to be said, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.asgi_server import listen_socket
from gateway.edge.client_request import ClientRequest
from gateway.edge.server import EdgeServer
from gateway.errors import GatewayError
from tests.fakes.waiting import eventually

TLS = Path(__file__).parent.parent / "data" / "tls"


def echo(request: ClientRequest) -> None:
    """The body comes back, or the path of a request without one."""
    request.answer.respond(200, request.body or request.path.encode("latin-1"))


def hold(request: ClientRequest) -> None:
    """No answer, until the test gives one."""


class StandInHandler:
    """``answers``: called for every whole request. ``refusals``: by path, what is refused before the body is read."""

    def __init__(
        self,
        answers: Callable[[ClientRequest], None] = echo,
        *,
        refusals: dict[str, Exception] | None = None,
        max_body_bytes: int = 64_000_000,
    ) -> None:
        self.answers = answers
        self.refusals = refusals or {}
        self.max_body_bytes = max_body_bytes
        self.begun: list[ClientRequest] = []
        self.served: list[ClientRequest] = []
        self.refused: list[tuple[ClientRequest, GatewayError]] = []
        self.unread: list[GatewayError] = []
        self.gone: list[ClientRequest] = []
        self.stops = 0

    def begin(self, request: ClientRequest) -> None:
        self.begun.append(request)
        request.answer.on_gone = lambda: self.gone.append(request)
        if request.path in self.refusals:
            raise self.refusals[request.path]

    def serve(self, request: ClientRequest) -> None:
        self.served.append(request)
        self.answers(request)

    def refuse(self, request: ClientRequest, error: GatewayError) -> None:
        self.refused.append((request, error))
        request.answer.respond(error.status, error.body(), error.headers())

    def unreadable(self, error: GatewayError, /) -> None:
        self.unread.append(error)

    def stop(self) -> None:
        self.stops += 1
        for request in self.served:
            request.answer.truncate()


@asynccontextmanager
async def serving(
    handler: StandInHandler,
    *,
    listening: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    upload_timeout_s: float = 30.0,
    send_timeout_s: float = 30.0,
    max_uploads_bytes: int = 1_000_000_000,
    drain_timeout_s: float = 30.0,
) -> AsyncIterator[EdgeServer]:
    """A server in front of ``handler``; nothing of it is left at the end. ``listening``: a socket it shares."""
    server = EdgeServer(
        handler,
        listening or listen_socket("127.0.0.1", 0),
        shared=listening is not None,
        tls=tls,
        upload_timeout_s=upload_timeout_s,
        send_timeout_s=send_timeout_s,
        max_uploads_bytes=max_uploads_bytes,
        drain_timeout_s=drain_timeout_s,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        await eventually(lambda: server.started)
        try:
            yield server
        finally:
            running.cancel()
            await eventually(lambda: server.connections == 0)
