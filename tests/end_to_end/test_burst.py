"""More arrivals than there are places: the bound holds at every moment, the rest waits in order or is told at once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.app import Gateway, running_gateway
from gateway.settings import Settings
from tests.end_to_end.at_rest import at_rest, busy
from tests.fakes.any_engine import AnyEngine
from tests.fakes.raw_client import RawAnswer, RawClient, post
from tests.fakes.scripted_server import Wire, answer
from tests.fakes.waiting import eventually

CLIENTS, PIPELINED = 400, 5
ROUNDS = 5
PLACES, QUEUE = 20, 50


class Gate:
    """What an engine plays: an answer to who was let through. ``most``: at one moment; ``order``: as they came."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.most = 0
        self.inside = 0
        self._let = asyncio.Semaphore(0)
        self._open = False

    async def play(self, wire: Wire) -> None:
        self.order.append(wire.request.values("x-request-id")[0].decode().rpartition("-")[0])
        self.inside += 1
        self.most = max(self.most, self.inside)
        gone = asyncio.ensure_future(wire.reader.read(1))  # nothing comes while a request waits for its answer
        passing = asyncio.ensure_future(self._pass())
        try:
            await asyncio.wait((gone, passing), return_when=asyncio.FIRST_COMPLETED)
            self.inside -= 1  # before the answer: its place is free as soon as the gateway has it
            if passing.done():
                await wire.send(answer(b"{}", headers=b"connection: close\r\n"))
        finally:
            gone.cancel()
            passing.cancel()
        wire.close()

    def let_through(self, number: int = 1) -> None:
        for _ in range(number):
            self._let.release()

    def open(self) -> None:
        """Nobody waits any more."""
        self._open = True
        self.let_through(10_000)

    async def _pass(self) -> None:
        if not self._open:
            await self._let.acquire()


class Burst:
    """A gateway before one engine behind a gate."""

    def __init__(self, gateway: Gateway, gate: Gate, engine: AnyEngine) -> None:
        self.gateway = gateway
        self.gate = gate
        self._engine = engine

    @property
    def port(self) -> int:
        return self.gateway.edge.port

    async def counts(self) -> tuple[int, int]:
        """In flight, and waiting."""
        now = await busy(self.gateway)
        return now["inflight"], now["waiting"]

    async def until(self, inflight: int, waiting: int) -> None:
        async with asyncio.timeout(20):
            while await self.counts() != (inflight, waiting):  # noqa: ASYNC110 - a page of its own, read over HTTP
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def asking(self, name: str, headers: bytes = b"") -> AsyncIterator[RawClient]:
        """A client that has sent one request."""
        async with RawClient(self.port) as client:
            await client.send(a_request(name, headers))
            yield client


def a_request(name: str, headers: bytes = b"") -> bytes:
    return post(b'{"model": "real", "prompt": "x"}', headers=b"x-request-id: %b\r\n%b" % (name.encode(), headers))


@asynccontextmanager
async def burst(*, places: int = PLACES, queue: int = QUEUE, **more: str) -> AsyncIterator[Burst]:
    """At its end it is at rest."""
    async with AsyncExitStack() as stack:
        gate = Gate()
        engine = await stack.enter_async_context(AnyEngine("a"))
        environ = {
            "PREFIXWAY_REPLICAS": f"a={engine.url}",
            "PREFIXWAY_STRATEGY": "round_robin",
            "PREFIXWAY_ACCESS_LOG": "false",
            "PREFIXWAY_BACKGROUND_CHECKS": "false",
            "PREFIXWAY_MAX_INFLIGHT": str(places),
            "PREFIXWAY_MAX_QUEUE": str(queue),
            **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
            **{f"PREFIXWAY_{name.upper()}": value for name, value in more.items()},
        }
        gateway = await stack.enter_async_context(running_gateway(Settings.from_env(environ)))
        await eventually(lambda: gateway.pool.was_ready)
        engine.cues.extend([gate.play] * 20_000)
        yield Burst(gateway, gate, engine)
        gate.open()
        await at_rest(gateway)


async def a_client(built: Burst, number: int, answers: list[RawAnswer]) -> None:
    """Several at once on one connection, and again."""
    async with RawClient(built.port) as client:
        for round_ in range(ROUNDS):
            names = [f"c{number}.{round_}.{place}" for place in range(PIPELINED)]
            await client.send(b"".join(map(a_request, names)))
            for name in names:
                answered = await client.answer_exactly()
                assert answered.value("x-request-id") == name.encode()
                answers.append(answered)


async def test_ten_thousand_at_once() -> None:
    """While nothing is answered: 20 there, 50 waiting, all others told at once when to try again. Then all are served
    or told, each once, and never were there more than 20.
    """
    answers: list[RawAnswer] = []
    async with burst() as built, asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            tasks.create_task(a_client(built, number, answers))
        turned_away = (CLIENTS - PLACES - QUEUE) * ROUNDS * PIPELINED
        await eventually(lambda: len(answers) == turned_away)
        await built.until(PLACES, QUEUE)

        assert {answered.status for answered in answers} == {429}
        assert built.gate.inside == len(built.gate.order) == PLACES
        built.gate.open()

    statuses = Counter(answered.status for answered in answers)
    assert statuses.keys() == {200, 429}
    assert statuses.total() == CLIENTS * ROUNDS * PIPELINED == 10_000
    assert built.gate.most == PLACES
    assert len(built.gate.order) == statuses[200] >= PLACES + QUEUE
    for answered in answers:
        if answered.status == 429:
            assert int(answered.value("retry-after")) > 0
            assert json.loads(answered.body)["error"]["code"] == "rate_limit_exceeded"


async def test_first_come_first_served() -> None:
    """Whoever leaves the queue frees a turn; nobody loses theirs."""
    async with burst(places=1, queue=6) as built, AsyncExitStack() as stack:
        clients = {}
        for place, name in enumerate("abcdefg"):
            clients[name] = await stack.enter_async_context(built.asking(name))
            await built.until(1, place)
        async with built.asking("too many") as late:
            assert (await late.answer()).status == 429
        clients["c"].close()
        clients["e"].reset()
        await built.until(1, 4)
        for place, name in enumerate("hi"):
            clients[name] = await stack.enter_async_context(built.asking(name))
            await built.until(1, 5 + place)
        for name in "abdfghi":
            await eventually(lambda: built.gate.inside == 1)
            built.gate.let_through()
            assert (await clients[name].answer()).status == 200

    assert built.gate.order == list("abdfghi")


async def test_higher_priorities_go_first() -> None:
    """Where clients may say so; in order within one. Leaving from the place itself lets the next one in."""
    async with burst(places=1, queue=9, client_priority="true") as built, AsyncExitStack() as stack:
        clients = {}
        for place, (name, priority) in enumerate([("a", 0), ("b", 0), ("c", -5), ("d", 7), ("e", 7), ("f", 100)]):
            header = b"x-prefixway-priority: %d\r\n" % priority
            clients[name] = await stack.enter_async_context(built.asking(name, header))
            await built.until(1, place)
        clients["a"].reset()
        await eventually(lambda: built.gate.order == ["a", "f"] and built.gate.inside == 1)
        built.gate.open()
        for name in "fdebc":
            assert (await clients[name].answer()).status == 200

    assert built.gate.order == list("afdebc")
