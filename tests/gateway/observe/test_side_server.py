"""A side port serves from its start to its cancellation."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from prometheus_client import CollectorRegistry

from gateway.asgi_server import listen_socket
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from tests.fakes.waiting import eventually


async def test_it_answers_and_then_is_gone() -> None:
    """Cancelled with a client connected and closed, it frees the port."""
    server = SideServer(ProbeApp(CollectorRegistry(), lambda: True), listen_socket("127.0.0.1", 0))
    task = asyncio.ensure_future(server.run())
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        assert (await client.get("/livez")).status_code == 200
        task.cancel()
        await eventually(task.done)
        server.close()
        with pytest.raises(httpx.HTTPError):
            await client.get("/livez")


async def test_it_may_be_run_again() -> None:
    """After a failure the same port answers again."""
    server = SideServer(ProbeApp(CollectorRegistry(), lambda: True), listen_socket("127.0.0.1", 0))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        for _ in range(2):
            task = asyncio.ensure_future(server.run())
            assert (await client.get("/livez")).status_code == 200
            task.cancel()
            await eventually(task.done)
    server.close()
