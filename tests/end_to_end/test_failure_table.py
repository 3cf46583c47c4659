"""Each row of the table in docs/failures.md, on sockets: what the client gets, who was asked, what counts against whom.

Replica ``a`` ends its requests as the row says, ``b`` answers. Breakers are read as they print.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import NamedTuple

import httpx
import pytest

from gateway.app import Gateway
from gateway.fleet.outcome import Outcome
from gateway.fleet.server import Server
from gateway.settings import Settings
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    Script,
    ScriptedServer,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
    plays_and_resets,
)
from tests.fakes.waiting import eventually

MODELS = answer(b'{"data": [{"id": "tiny"}]}')
GOOD = answer(b'{"choices": [{"finish_reason": "stop"}]}')
EVENT = chunk(b'data: {"choices": []}\n\n')
UNTOUCHED, ONE_FAILURE = "<Breaker closed, 0 failures>", "<Breaker closed, 1 failures>"


def replica(*endings: Script) -> ScriptedServer:
    """A server that answers probes well, and plays ``endings`` for prompts: one after another, the last for ever."""
    left = list(endings)

    async def script(wire: Wire) -> None:
        path = wire.request.line.split()[1]
        if wire.request.line.startswith(b"POST"):
            await (left.pop(0) if len(left) > 1 else left[0])(wire)
        elif path == b"/health":
            await wire.send(answer(b""))
        elif path == b"/v1/models":
            await wire.send(MODELS)
        else:
            await wire.send(answer(b"", status="404 Not Found"))

    return ScriptedServer(script)


def says_and_waits(*pieces: bytes) -> Script:
    """A script that sends these pieces, and then nothing for as long as anybody waits."""

    async def script(wire: Wire) -> None:
        await wire.send(*pieces)
        await wire.until_gone()

    return script


class Clock:
    """The gateway's, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return monotonic() + self.ahead_s


class Pair:
    """A gateway before ``a`` and ``b``."""

    def __init__(
        self, gateway: Gateway, clock: Clock, servers: Mapping[str, ScriptedServer], client: httpx.AsyncClient
    ) -> None:
        self.gateway = gateway
        self.clock = clock
        self.servers = servers
        self.client = client

    def asked(self, id_: str) -> int:
        """How many prompts it was sent."""
        return sum(request.line.startswith(b"POST") for request in self.servers[id_].requests)

    def server(self, id_: str) -> Server:
        server = self.gateway.pool.server(id_)
        assert server is not None
        return server

    @property
    def inflight(self) -> int:
        return sum(server.inflight for server in self.gateway.pool.servers)

    async def ask(self) -> httpx.Response:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True}
        return await self.client.post("/v1/chat/completions", json=body)

    async def ask_a(self) -> tuple[httpx.Response, int]:
        """The answer to the first request that ``a`` was asked for, and how often ``b`` was for the same one."""
        for _ in range(4):
            before = self.asked("b")
            response = await self.ask()
            if self.asked("a"):
                return response, self.asked("b") - before
        raise AssertionError("a was never chosen")

    async def outcomes(self) -> set[str]:
        """The outcomes that requests were counted by."""
        page = (await self.client.get(f"http://127.0.0.1:{self.gateway.metrics.port}/metrics")).text
        lines = [line for line in page.splitlines() if line.startswith("prefixway_requests_total{")]
        return {line.partition('outcome="')[2].partition('"')[0] for line in lines}


@asynccontextmanager
async def pair(*a: Script, b: Script | None = None, **settings: str) -> AsyncIterator[Pair]:
    """Start it and wait until both are healthy."""
    clock = Clock()
    async with AsyncExitStack() as stack:
        servers = {
            id_: await stack.enter_async_context(replica(*endings))
            for id_, endings in (("a", a), ("b", [b or plays(GOOD)]))
        }
        environ = {
            "PREFIXWAY_REPLICAS": ",".join(f"{id_}={server.origin.url}" for id_, server in servers.items()),
            "PREFIXWAY_STRATEGY": "round_robin",
            "PREFIXWAY_TOKENIZER": "/nowhere",
            "PREFIXWAY_ACCESS_LOG": "false",
            "PREFIXWAY_BACKGROUND_CHECKS": "false",
            **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
            **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
        }
        gateway = Gateway(Settings.from_env(environ), linger_s=0, clock=clock)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(gateway.run())
        stack.callback(gateway.stop)
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60))
        await eventually(lambda: all(server.healthy for server in gateway.pool.servers))
        yield Pair(gateway, clock, servers, client)


class Row(NamedTuple):
    """``by``: whose answer the client gets."""

    script: Script
    by: str
    status: int = 200
    breaker: str = ONE_FAILURE
    text: str = ""  # somewhere in what the client gets
    backs_off: bool = False


ROWS: Mapping[Outcome, Row] = {
    Outcome.OK: Row(plays(GOOD), "a", breaker=UNTOUCHED),
    Outcome.CLIENT_ERROR: Row(
        plays(answer(b'{"error": "no such thing"}', status="404 Not Found")),
        "a",
        status=404,
        breaker=UNTOUCHED,
        text='{"error": "no such thing"}',
    ),
    Outcome.BUSY: Row(plays(answer(b"", status="429 Too Many Requests")), "b", breaker=UNTOUCHED, backs_off=True),
    Outcome.UNAVAILABLE: Row(plays(answer(b"", status="503 Service Unavailable")), "b", backs_off=True),
    Outcome.SERVER_ERROR: Row(plays(answer(b"", status="500 Internal Server Error")), "b"),
    Outcome.ENGINE_ERROR: Row(
        plays(answer(b'{"choices": [{"finish_reason": "error"}]}')), "a", text='{"finish_reason": "error"}'
    ),
    Outcome.BROKEN: Row(plays_and_closes(SSE_HEAD), "b"),
    Outcome.CUT_OFF: Row(plays_and_resets(SSE_HEAD, EVENT), "a", text='data: {"error"'),
    Outcome.FIRST_BYTE_TIMEOUT: Row(says_and_waits(SSE_HEAD), "", status=504, text="replica_timeout"),
    Outcome.CHUNK_TIMEOUT: Row(says_and_waits(SSE_HEAD, EVENT), "a", text="replica_timeout"),
}
TOLD_BELOW = {Outcome.UNREACHABLE, Outcome.STALE, Outcome.CLIENT_GONE, Outcome.ABANDONED}


def test_every_row_has_a_test() -> None:
    """Those that need more than a script are below."""
    assert ROWS.keys() | TOLD_BELOW == set(Outcome)


@pytest.mark.parametrize("outcome", ROWS)
async def test_a_row_of_the_table(outcome: Outcome) -> None:
    """What passes, what is tried again and where, what counts, and by which word."""
    row = ROWS[outcome]
    async with pair(row.script, first_byte_timeout_s="1", chunk_timeout_s="1") as both:
        response, asked_b = await both.ask_a()
        a, b = both.server("a"), both.server("b")

        assert response.status_code == row.status
        assert response.headers.get("x-prefixway-replica", "") == row.by
        assert row.text in response.text
        assert (both.asked("a"), asked_b) == (1, int(row.by == "b"))
        assert (repr(a.breaker), repr(b.breaker)) == (row.breaker, UNTOUCHED)
        assert a.is_ready(both.clock()) is not row.backs_off
        assert both.inflight == 0
        assert ("ok" if row.by == "b" else outcome.label) in await both.outcomes()


async def test_a_stream_that_ends_with_the_engines_error_event_counts() -> None:
    """It is a server error inside a 200: it passes as it came, and cannot be tried again."""
    event = b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n'
    async with pair(plays(SSE_HEAD, EVENT, chunk(event), LAST_CHUNK)) as both:
        response, asked_b = await both.ask_a()

        assert response.text.endswith(event.decode())
        assert response.text.count("error") == 1
        assert asked_b == 0
        assert repr(both.server("a").breaker) == ONE_FAILURE


async def test_a_refused_connection_is_tried_elsewhere_and_counts() -> None:
    """Nothing listens at ``a`` any more."""
    async with pair(plays(GOOD), retry_budget="0", probe_interval_s="60") as both:
        both.servers["a"].close_listener()
        responses = [await both.ask() for _ in range(4)]

        assert {(response.status_code, response.headers["x-prefixway-replica"]) for response in responses} == {
            (200, "b")
        }
        assert both.asked("a") == 0
        assert repr(both.server("a").breaker) == "<Breaker closed, 2 failures>"


async def test_a_stale_connection_costs_nothing() -> None:
    """``a`` answers, then closes the kept connection upon the next request: that goes on a new one."""
    async with pair(plays(GOOD), plays_and_closes(), plays(GOOD), retry_budget="0") as both:
        responses = [await both.ask() for _ in range(4)]

        assert {response.status_code for response in responses} == {200}
        assert (both.asked("a"), both.asked("b")) == (3, 2)
        assert repr(both.server("a").breaker) == UNTOUCHED


async def _leaves(both: Pair, *, after_s: float = 0.0) -> None:
    """A client asks ``a`` and leaves when it was heard there and has waited for ``after_s``."""
    for _ in range(2):
        asking = asyncio.ensure_future(both.ask())
        await eventually(lambda asking=asking: both.asked("a") > 0 or asking.done())  # type: ignore[misc]
        if not asking.done():
            break
    both.clock.ahead_s += after_s
    asking.cancel()
    await eventually(lambda: both.inflight == 0)


async def test_a_client_that_leaves_counts_for_nothing() -> None:
    """Released at once, and no failure."""
    async with pair(says_and_waits(SSE_HEAD)) as both:
        await _leaves(both)

        assert repr(both.server("a").breaker) == UNTOUCHED
        assert both.server("a").is_ready(both.clock())
        assert "client_gone" in await both.outcomes()


async def test_a_server_that_never_answers_is_ejected_until_it_does() -> None:
    """It passes /health all the time, and sends heads. Stalled, then given up on: its breaker opens at once."""
    async with pair(says_and_waits(SSE_HEAD), plays(GOOD), probe_interval_s="0.05") as both:
        a = both.server("a")
        await _leaves(both, after_s=60)
        opened = repr(a.breaker)
        meanwhile = [(await both.ask()).headers["x-prefixway-replica"] for _ in range(4)]
        both.clock.ahead_s += 10
        afterwards = [(await both.ask()).headers["x-prefixway-replica"] for _ in range(4)]

        assert opened == "<Breaker open, 5 failures>"
        assert a.healthy
        assert meanwhile == ["b"] * 4
        assert afterwards.count("a") >= 1
        assert repr(a.breaker) == UNTOUCHED


async def test_a_stalled_server_gets_no_new_requests_and_keeps_those_it_has() -> None:
    """Who waits there is answered in the end."""
    released = asyncio.Event()

    async def late(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await released.wait()
        await wire.send(EVENT, LAST_CHUNK)

    async with pair(late, plays(GOOD)) as both:
        a = both.server("a")
        waiting = [asyncio.ensure_future(both.ask()) for _ in range(2)]
        await eventually(lambda: a.silence.waiting == 1)
        both.clock.ahead_s += 60
        elsewhere = [(await both.ask()).headers["x-prefixway-replica"] for _ in range(4)]
        released.set()
        answers = await asyncio.gather(*waiting)

        assert elsewhere == ["b"] * 4
        assert {response.status_code for response in answers} == {200}
        assert repr(a.breaker) == UNTOUCHED
        assert a.is_ready(both.clock())


async def test_when_all_push_back_the_last_answer_passes_untouched() -> None:
    """With the words that clients wait by."""
    words = b"retry-after: 7\r\nx-ratelimit-remaining-requests: 0\r\n"
    busy = plays(answer(b'{"error": {"message": "busy"}}', status="429 Too Many Requests", headers=words))
    async with pair(busy, b=busy) as both:
        response, asked_b = await both.ask_a()

        assert (response.status_code, asked_b) == (429, 1)
        assert response.headers["retry-after"] == "7"
        assert response.headers["x-ratelimit-remaining-requests"] == "0"
        assert json.loads(response.text)["error"]["message"] == "busy"


async def test_a_server_that_always_fails_is_asked_five_times() -> None:
    """Twenty requests: none is lost, and its breaker opens."""
    async with pair(plays(answer(b"", status="500 Internal Server Error"))) as both:
        statuses = [(await both.ask()).status_code for _ in range(20)]

        assert statuses == [200] * 20
        assert both.asked("a") == 5
        assert not both.server("a").breaker.is_closed


async def test_without_a_healthy_server_nothing_is_tried() -> None:
    """/health fails everywhere though both can be connected to, and would answer: 503 with the reason."""
    async with pair(plays(GOOD)) as both:
        for server in both.gateway.pool.servers:
            for _ in range(3):
                server.probe_missed("/health answered 500")
        response = await both.ask()

        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert "a: /health answered 500" in response.json()["error"]["message"]
        assert (both.asked("a"), both.asked("b")) == (0, 0)
