from __future__ import annotations

import asyncio
import signal
import socket

import pytest

from gateway.asgi_server import listen_socket
from gateway.edge.client_request import ClientRequest
from gateway.edge.server import EdgeServer
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import StandInHandler, echo, hold, serving
from tests.fakes.waiting import eventually

BODY = b'{"prompt":"hello"}'
FIRST, SECOND = b"data: 1\n\n", b"data: 2\n\n"


def begin_stream(request: ClientRequest) -> None:
    request.answer.start(200, [], has_length=False)
    request.answer.send(FIRST, last=False)


async def test_draining_lets_streams_finish_and_takes_no_more() -> None:
    """What runs gets its last byte; a new connection is refused; idle ones are closed; then it is over."""
    handler = StandInHandler(begin_stream)
    server = EdgeServer(handler, listen_socket("127.0.0.1", 0))
    running = asyncio.ensure_future(server.run())
    await eventually(lambda: server.started)
    async with RawClient(server.port) as streaming, RawClient(server.port) as idle:
        await streaming.send(post(BODY))
        await streaming.read_until(FIRST + b"\r\n")
        await eventually(lambda: server.connections == 2)
        server.drain()
        assert await idle.read_to_end() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        handler.served[0].answer.send(SECOND, last=True)
        assert await streaming.read_to_end() == chunk(SECOND) + LAST_CHUNK
    await asyncio.wait_for(running, 10)
    assert not handler.gone
    assert server.connections == 0


async def test_a_request_on_its_way_is_drained_too() -> None:
    """It gets its answer, which says that it is the last."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as half, RawClient(server.port) as begun:
        await half.send(b"POST /x HTTP/1.1\r\n")
        await begun.send(post(BODY)[:-1])
        await eventually(lambda: handler.begun and server.connections == 2)
        async with RawClient(server.port) as witness:
            await witness.ask(get("/x"))
        server.drain()
        await begun.send(BODY[-1:])
        await half.send(b"host: g\r\n\r\n")
        for client in (half, begun):
            assert (await client.answer()).value("connection") == b"close"


async def test_what_outlasts_the_drain_is_broken_off() -> None:
    """By the handler, which is left time to say so."""
    handler = StandInHandler(begin_stream)
    server = EdgeServer(handler, listen_socket("127.0.0.1", 0), drain_timeout_s=0.05)
    running = asyncio.ensure_future(server.run())
    await eventually(lambda: server.started)
    async with RawClient(server.port) as client:
        await client.send(post(BODY))
        await client.read_until(FIRST + b"\r\n")
        server.drain()
        await asyncio.wait_for(running, 10)
        assert await client.read_to_end() == b""
    assert handler.stops == 2  # when its time was up, and at the very end
    assert not handler.gone


async def test_an_upload_that_outlasts_the_drain_is_refused() -> None:
    """Whoever sends it may send it elsewhere."""
    handler = StandInHandler()
    server = EdgeServer(handler, listen_socket("127.0.0.1", 0), drain_timeout_s=0.05)
    running = asyncio.ensure_future(server.run())
    await eventually(lambda: server.started)
    async with RawClient(server.port) as client:
        await client.send(post(BODY)[:-1])
        await eventually(lambda: handler.begun)
        server.drain()
        got = await client.answer()
        assert (got.status, got.value("connection"), got.complete) == (503, b"close", True)
        assert b'"stopping"' in got.body
        assert [request for request, _ in handler.refused] == handler.begun
        client.close()
        await asyncio.wait_for(running, 10)


async def test_a_second_drain_waits_for_nothing() -> None:
    """Nor does a third."""
    handler = StandInHandler(hold)
    server = EdgeServer(handler, listen_socket("127.0.0.1", 0))
    running = asyncio.ensure_future(server.run())
    await eventually(lambda: server.started)
    async with RawClient(server.port) as client:
        await client.send(post(BODY))
        await eventually(lambda: handler.served)
        server.drain()
        await asyncio.wait({running}, timeout=0.05)
        assert not running.done()
        server.drain()
        server.drain()
        await asyncio.wait_for(running, 10)
    assert handler.stops


async def test_a_drain_before_the_start_is_the_end() -> None:
    """Nobody is served, and the port is free."""
    server = EdgeServer(StandInHandler(), listen_socket("127.0.0.1", 0))
    server.drain()
    await asyncio.wait_for(server.run(), 10)
    assert not server.started
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_abandoning_breaks_off_what_runs() -> None:
    """At once: first the handler, which knows why, then every connection."""
    handler = StandInHandler(begin_stream)
    async with serving(handler) as server, RawClient(server.port) as client, RawClient(server.port) as waiting:
        await client.send(post(BODY))
        await client.read_until(FIRST + b"\r\n")
        await waiting.send(post(BODY)[:-1])
        await eventually(lambda: len(handler.begun) == 2)
        server.abandon()
        await eventually(lambda: server.connections == 0)
        assert handler.stops
        assert handler.gone == handler.begun[1:]  # it had not been served, and was not stopped


async def test_signals_stay_with_the_process() -> None:
    """The server installs no handlers of its own."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serving(StandInHandler()):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_parting_every_answer_says_that_it_is_the_last_on_its_connection() -> None:
    """A client that was told does not use the connection again."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        assert not (await client.ask(get("/x"))).values("connection")
        server.part()
        assert (await client.ask(get("/x"))).values("connection") == [b"close"]
        assert await client.read_to_end() == b""


async def test_handing_over_it_leaves_connections_to_others_and_breaks_none_off() -> None:
    """An idle client gets one more answer; when all have left the hand-over is done, long before its time is up."""
    async with serving(StandInHandler()) as server, RawClient(server.port) as idle:
        await idle.ask(get("/x"))
        server.part()
        handing = asyncio.ensure_future(server.hand_over(patience_s=60))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):  # nobody else is there to accept
            await asyncio.open_connection("127.0.0.1", server.port)
        assert not handing.done()
        assert (await idle.ask(get("/x"))).status == 200
        idle.close()
        await asyncio.wait_for(handing, 20)


async def test_a_hand_over_ends_with_its_time_or_with_a_drain() -> None:
    """Whatever idle clients do."""
    async with serving(StandInHandler()) as server, RawClient(server.port) as idle:
        await idle.ask(get("/x"))
        await server.hand_over(patience_s=0.01)
        assert server.connections == 1
        handing = asyncio.ensure_future(server.hand_over(patience_s=60))
        await asyncio.wait({handing}, timeout=0.05)
        server.drain()
        await asyncio.wait_for(handing, 20)
        await asyncio.wait_for(server.hand_over(patience_s=60), 20)


async def test_a_client_that_came_in_the_last_moment_gets_its_answer() -> None:
    """Taken just before the hand-over, it has not asked yet."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with serving(StandInHandler(), listening=listening) as server, RawClient(server.port) as client:
            server.part()
            handing = asyncio.ensure_future(server.hand_over(patience_s=60))
            await eventually(lambda: server.connections == 1 or handing.done())
            assert not handing.done()
            assert (await client.ask(get("/x"))).values("connection") == [b"close"]
            client.close()
            await asyncio.wait_for(handing, 20)


async def test_two_servers_on_one_socket() -> None:
    """Each takes its turns; when one hands over the other has every client, and none is refused."""
    handler = StandInHandler(echo)
    with listen_socket("127.0.0.1", 0) as listening:
        async with (
            serving(handler, listening=listening.dup()) as one,
            serving(handler, listening=listening.dup()) as two,
        ):
            clients = await asyncio.gather(*[RawClient(one.port).__aenter__() for _ in range(40)])
            assert {(await client.ask(get("/x"))).status for client in clients} == {200}
            counts = one.connections, two.connections
            one.part()
            handing = asyncio.ensure_future(one.hand_over(patience_s=60))
            for client in clients:
                got = await client.ask(get("/x"))
                assert got.status == 200
                if got.values("connection"):
                    client.close()
            await handing
            late = [await RawClient(one.port).__aenter__() for _ in range(10)]
            assert {(await client.ask(get("/x"))).status for client in late} == {200}
            assert (one.connections, two.connections) == (0, counts[1] + 10)
            for client in (*clients, *late):
                await client.__aexit__()

    assert min(counts) > 5


async def test_a_client_whose_host_died_is_noticed() -> None:
    """What is accepted asks for signs of life, as its listening socket would."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with serving(StandInHandler(), listening=listening.dup()):
            assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
