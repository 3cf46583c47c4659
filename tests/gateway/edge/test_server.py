from __future__ import annotations

import asyncio
import signal

import pytest

from gateway.asgi_server import listen_socket
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


async def test_parting_every_answer_says_that_it_is_the_last_on_its_connection() -> None:
    """The one that has no head yet, and those to come; a client that was told does not use the connection again."""
    more = asyncio.Event()

    async def script(wire: Wire) -> None:
        await more.wait()
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"), LAST_CHUNK)

    async with (
        ScriptedServer(script) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as waiting,
        RawClient(edge.port) as idle,
        RawClient(edge.port) as new,
    ):
        assert not (await idle.ask(get("/health"))).values("connection")
        await waiting.send(post(BODY))
        await eventually(lambda: server.requests)
        edge.server.part()
        more.set()
        assert (await waiting.answer()).values("connection") == [b"close"]
        for client in (idle, new):
            assert (await client.ask(get("/health"))).values("connection") == [b"close"]
            assert await client.read_to_end() == b""


async def test_handing_over_it_leaves_connections_to_others_and_breaks_none_off() -> None:
    """An idle client gets one more answer; when all have left the hand-over is done, long before its time is up."""
    async with running_edge() as edge, RawClient(edge.port) as idle:
        await idle.ask(get("/health"))
        edge.server.part()
        handing = asyncio.ensure_future(edge.server.hand_over(patience_s=60))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):  # nobody else is there to accept
            await asyncio.open_connection("127.0.0.1", edge.port)
        assert not handing.done()
        assert (await idle.ask(get("/health"))).status == 200
        await asyncio.wait_for(handing, 20)


async def test_a_hand_over_ends_with_its_time_or_with_a_drain() -> None:
    """Whatever idle clients do."""
    async with running_edge() as edge, RawClient(edge.port) as idle:
        await idle.ask(get("/health"))
        await edge.server.hand_over(patience_s=0.01)
        assert edge.server.connections == 1
        handing = asyncio.ensure_future(edge.server.hand_over(patience_s=60))
        edge.server.drain()
        await asyncio.wait_for(handing, 20)


async def test_a_client_that_came_in_the_last_moment_gets_its_answer() -> None:
    """Taken just before the hand-over, it has not asked yet."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with running_edge(listening=listening) as edge, RawClient(edge.port) as client:
            edge.server.part()
            handing = asyncio.ensure_future(edge.server.hand_over(patience_s=60))
            await eventually(lambda: edge.server.connections == 1 or handing.done())
            assert not handing.done()
            assert (await client.ask(get("/health"))).values("connection") == [b"close"]
            await asyncio.wait_for(handing, 20)


async def test_two_servers_on_one_socket() -> None:
    """Each takes its turns; when one hands over the other has every client, and none is refused."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with running_edge(listening=listening.dup()) as one, running_edge(listening=listening.dup()) as two:
            clients = [await RawClient(one.port).__aenter__() for _ in range(40)]
            assert {(await client.ask(get("/livez"))).status for client in clients} == {200}
            counts = one.server.connections, two.server.connections
            one.server.part()
            handing = asyncio.ensure_future(one.server.hand_over(patience_s=60))
            for client in clients:
                assert (await client.ask(get("/livez"))).status == 200
            await handing
            late = [await RawClient(one.port).__aenter__() for _ in range(10)]
            assert {(await client.ask(get("/livez"))).status for client in late} == {200}
            assert (one.server.connections, two.server.connections) == (0, counts[1] + 10)
            for client in (*clients, *late):
                await client.__aexit__()

    assert min(counts) > 5
