from __future__ import annotations

import asyncio
import signal

import pytest

from gateway.edge.server import EdgeServer
from gateway.fleet.outcome import Outcome
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, Wire, chunk
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello"}'


async def test_draining_lets_streams_finish_and_takes_no_more() -> None:
    """What runs gets its last byte; a new connection is refused; idle ones are closed."""
    more = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
        await more.wait()
        await wire.send(chunk(b"data: 2\n\n"), LAST_CHUNK)

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge:
        async with RawClient(edge.port) as streaming, RawClient(edge.port) as idle:
            await idle.ask(get("/health"))
            await streaming.send(post(BODY))
            await streaming.read_until(b"data: 1\n\n\r\n")
            edge.server.drain()
            assert await idle.read_to_end() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", edge.port)
            more.set()
            assert (await streaming.read_to_end()).endswith(b"data: 2\n\n\r\n" + LAST_CHUNK)
        await eventually(lambda: edge.server.connections == 0)
        assert edge.router.outcomes == [Outcome.OK]


async def test_cancelling_breaks_off_what_runs() -> None:
    """Nothing is left behind, on either side."""

    async def script(wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
        await wire.until_gone()

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY))
        await client.read_until(b"data: 1\n\n\r\n")
        edge.server.abandon()
        await eventually(server.wires[0].gone.is_set)
        assert edge.router.outcomes == [Outcome.CLIENT_GONE]


async def test_signals_stay_with_the_process() -> None:
    """The server installs no handlers of its own."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with running_edge() as edge:
        assert isinstance(edge.server, EdgeServer)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_local_answers_have_a_date() -> None:
    """RFC 9110 section 6.6.1 asks it of a server with a clock."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(get("/health"))
        assert len(got.values("date")) == 1
        assert not got.values("server")
