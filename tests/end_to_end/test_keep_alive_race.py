"""Servers that close idle connections just as a request sets out: no client sees any of it, and nothing runs thrice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import uvicorn

from gateway.asgi_server import listen_socket
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, Script, ScriptedServer, Wire, answer, chunk
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import Edge, running_edge

SERVER_KEEPS_S = 0.05  # vLLM's 5 s, and all times here, a hundredth
CLIENTS, ROUNDS = 20, 10
BODY = b'{"model": "m", "prompt": "x"}'
GOOD = answer(b"{}")


@asynccontextmanager
async def uvicorn_server() -> AsyncIterator[Origin]:
    """What vLLM listens with; it answers everything."""

    async def app(scope: object, receive: object, send: object) -> None:
        await receive()  # type: ignore[operator]
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"{}"})  # type: ignore[operator]

    listening = listen_socket("127.0.0.1", 0)
    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=SERVER_KEEPS_S)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server._serve([listening]))
        await eventually(lambda: server.started)
        try:
            yield Origin(False, "127.0.0.1", listening.getsockname()[1])
        finally:
            server.should_exit = True


@pytest.mark.parametrize("idle_timeout_s", [0.8 * SERVER_KEEPS_S, 10 * SERVER_KEEPS_S], ids=["before it", "after it"])
async def test_uvicorn_closes_what_is_idle(idle_timeout_s: float) -> None:
    """Requests that come just before, with and just after its timer: whoever closes first, each is answered."""
    statuses: Counter[int] = Counter()

    async def person(edge: Edge, rng: Random) -> None:
        async with RawClient(edge.port) as client:
            for _ in range(ROUNDS):
                statuses[(await client.ask(post(BODY))).status] += 1
                await asyncio.sleep(
                    SERVER_KEEPS_S * rng.uniform(0.97, 1.05)
                )  # this is the race, not a wait for its end

    async with uvicorn_server() as origin, running_edge(origin, idle_timeout_s=idle_timeout_s) as edge:
        async with asyncio.TaskGroup() as people:
            for number in range(CLIENTS):
                people.create_task(person(edge, Random(number)))

        assert statuses == {200: CLIENTS * ROUNDS}
        assert set(edge.router.outcomes) == {Outcome.OK}
        assert len(edge.router.attempts) == CLIENTS * ROUNDS


class Spoiler:
    """Answers the first request of each connection, and ends the connection when another one is on its way."""

    def __init__(self, *, reset: bool) -> None:
        self._reset = reset
        self._met: set[int] = set()
        self.heard: Counter[str] = Counter()

    async def play(self, wire: Wire) -> None:
        name = wire.request.values("x-prompt")[0].decode()
        self.heard[name] += 1
        if id(wire.writer) not in self._met:
            self._met.add(id(wire.writer))
            await wire.send(GOOD)
        elif self._reset:
            wire.reset()
        else:
            wire.close()


def kept_alive(writers: list[object], script: Script) -> Script:
    """Nothing of a connection is forgotten, so that no later one is taken for it."""

    async def play(wire: Wire) -> None:
        writers.append(wire.writer)
        await script(wire)

    return play


@pytest.mark.parametrize("reset", [True, False], ids=["RST", "FIN"])
async def test_the_server_closes_exactly_when_a_request_comes(reset: bool) -> None:
    """Two hundred times: it is sent again, once, on a new connection, and to nobody else. That connection is the next
    to be kept.
    """
    spoiler, writers = Spoiler(reset=reset), list[object]()
    async with (
        ScriptedServer(kept_alive(writers, spoiler.play)) as server,
        ScriptedServer() as other,
        running_edge(server.origin, other.origin, retry_budget=0.0) as edge,
        RawClient(edge.port) as client,
    ):
        for number in range(201):
            answered = await client.ask(post(BODY, headers=b"x-prompt: %d\r\n" % number))
            assert (answered.status, answered.body) == (200, b"{}")

        assert Counter(spoiler.heard.values()) == {1: 1, 2: 200}
        assert edge.router.outcomes == [Outcome.OK] * 201
        assert {exchange.attempts for exchange in edge.exchanges} == {1}
        assert other.connections == 0


async def test_many_at_once() -> None:
    """Dozens of connections are kept, and all of them are dead when the next requests come."""
    spoiler, writers = Spoiler(reset=False), list[object]()
    async with ScriptedServer(kept_alive(writers, spoiler.play)) as server, running_edge(server.origin) as edge:

        async def person(number: int) -> None:
            async with RawClient(edge.port) as client:
                for turn in range(5):
                    answered = await client.ask(post(BODY, headers=b"x-prompt: %d.%d\r\n" % (number, turn)))
                    assert answered.status == 200

        async with asyncio.TaskGroup() as people:
            for number in range(40):
                people.create_task(person(number))

        assert len(spoiler.heard) == 200
        assert max(spoiler.heard.values()) <= 2
        assert set(edge.router.outcomes) == {Outcome.OK}


async def test_a_kept_connection_that_breaks_within_the_answer_is_not_sent_again() -> None:
    """A byte of it has come: the request was alive there."""
    parts = [GOOD, SSE_HEAD + chunk(b"data: {}\n\n")]

    async def script(wire: Wire) -> None:
        await wire.send(parts[min(1, len(server.requests) - 1)])
        if len(server.requests) > 1:
            wire.close()

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        assert (await client.ask(post(BODY))).status == 200
        answered = await client.ask(post(BODY))

        assert answered.body.startswith(b"data: {}\n\ndata: ")
        assert answered.complete
        assert LAST_CHUNK not in answered.body
        assert len(server.requests) == 2
        assert edge.router.outcomes == [Outcome.OK, Outcome.CUT_OFF]
