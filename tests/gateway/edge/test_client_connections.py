"""What is common to all connections: the clock that ends the quiet ones, and how they all end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.edge.client_connections import ClientConnections
from gateway.edge.outbox import Outbox
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.stand_in_handler import StandInHandler, echo, hold
from tests.fakes.waiting import eventually


@asynccontextmanager
async def accepting(clients: ClientConnections) -> AsyncIterator[int]:
    """The port on which they are accepted."""
    server = await asyncio.get_running_loop().create_server(clients.connect, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        clients.abort()
        await clients.wait_none()


@pytest.mark.parametrize("first", [b"", get("/x")])
async def test_an_idle_connection_is_closed(first: bytes) -> None:
    """Whether it ever asked anything or not; without a word, for there is nothing to answer."""
    handler = StandInHandler()
    async with accepting(ClientConnections(handler, keep_alive_s=0.1)) as port, RawClient(port) as client:
        if first:
            assert (await client.ask(first)).status == 200
        assert await client.read_to_end() == b""
    assert not handler.unread


async def test_a_connection_that_waits_for_us_is_not_idle() -> None:
    """However long the answer takes."""
    handler = StandInHandler(hold)
    async with accepting(ClientConnections(handler, keep_alive_s=0.05)) as port, RawClient(port) as client:
        await client.send(post(b"1"))
        await eventually(lambda: handler.served)
        async with RawClient(port) as witness:
            assert await witness.read_to_end() == b""  # so much time has passed
        echo(handler.served[0])
        assert (await client.answer()).status == 200


async def test_no_clock_runs_for_nobody() -> None:
    """It starts with a connection, and again with the next."""
    clients = ClientConnections(StandInHandler(), keep_alive_s=0.05)
    async with accepting(clients) as port:
        for _ in range(2):
            async with RawClient(port) as client:
                assert await client.read_to_end() == b""
            await asyncio.wait_for(clients.wait_none(), 10)
            assert len(clients) == 0


async def test_parting_answers_say_that_they_are_the_last() -> None:
    """Of a request that is there, of one that is on its way, and of one that is yet to come."""
    handler = StandInHandler(hold)
    clients = ClientConnections(handler)
    async with accepting(clients) as port, RawClient(port) as there, RawClient(port) as coming, RawClient(port) as new:
        await there.send(post(b"1"))
        await coming.send(post(b"2")[:-1])
        await eventually(lambda: len(handler.begun) == 2)
        clients.part()
        handler.answers = echo
        echo(handler.served[0])
        for client, rest in ((there, b""), (coming, b"2"), (new, post(b"3"))):
            await client.send(rest)
            assert (await client.answer()).value("connection") == b"close"
            assert await client.read_to_end() == b""


async def test_draining_closes_what_is_idle_and_lets_the_rest_end() -> None:
    """Whoever comes later finds the door shut."""
    handler = StandInHandler(hold)
    clients = ClientConnections(handler)
    async with accepting(clients) as port, RawClient(port) as busy, RawClient(port) as idle:
        await busy.send(post(b"1") + post(b"2"))
        await eventually(lambda: handler.served and len(clients) == 2)
        clients.drain()
        assert await idle.read_to_end() == b""
        async with RawClient(port) as late:
            assert await late.read_to_end() == b""
        echo(handler.served[0])
        assert (await busy.answer()).value("connection") == b"close"
        assert await busy.read_to_end() == b""


async def test_an_answer_that_had_begun_before_a_drain_is_the_last_all_the_same() -> None:
    """It could not say so any more."""
    handler = StandInHandler(hold)
    clients = ClientConnections(handler)
    async with accepting(clients) as port, RawClient(port) as client:
        await client.send(post(b"1"))
        await eventually(lambda: handler.served)
        handler.served[0].answer.start(200, [], has_length=False)
        handler.served[0].answer.flush()
        clients.drain()
        handler.served[0].answer.send(b"x", last=True)
        got = await client.answer()
        assert (got.body, got.complete, got.values("connection")) == (b"x", True, [])
        assert await client.read_to_end() == b""


async def test_who_works_for_a_client_hears_that_it_left_whatever_else_fails() -> None:
    """What it holds would be lost for ever."""

    class Failing(Outbox):
        fails = False

        def flush(self) -> None:
            super().flush()
            if self.fails:
                raise RuntimeError("a fault")

    handler, outbox, faults = StandInHandler(hold), Failing(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(str(context.get("exception"))))
    clients = ClientConnections(handler, outbox=outbox)
    async with accepting(clients) as port, RawClient(port) as client:
        await client.send(post(b"1"))
        await eventually(lambda: handler.served)
        outbox.fails = True
        client.reset()
        await eventually(lambda: len(clients) == 0)
        outbox.fails = False
    assert (handler.gone, faults) == (handler.served, ["a fault"])
