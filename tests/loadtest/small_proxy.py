"""A proxy of a few lines, for a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx

from loadtest.replica.http_server import HttpServer, ReceivedRequest, Responder

#: Asks somebody, and answers.
Relay = Callable[[httpx.AsyncClient, ReceivedRequest, Responder], Awaitable[None]]


@asynccontextmanager
async def small_proxy(relay: Relay) -> AsyncIterator[str]:
    """Its base URL."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        server = HttpServer(lambda request, responder: relay(client, request, responder))
        await server.start()
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            await server.stop()
