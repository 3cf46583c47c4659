"""What happens when replicas fail: who is asked next, what the client gets, what each attempt is told."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import AsyncExitStack

import pytest

from gateway.edge.client_request import ClientRequest
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    Script,
    ScriptedServer,
    Wire,
    answer,
    chunk,
    closed_port,
    plays,
    plays_and_closes,
    plays_and_resets,
)
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import admission_with, running_edge

BODY = b'{"model":"m","prompt":"hello"}'
GOOD = plays(SSE_HEAD, chunk(b"data: good\n\n"), LAST_CHUNK)


def refused() -> Origin:
    return Origin(False, "127.0.0.1", closed_port())


def busy(status: str, body: bytes = b'{"error":{"message":"busy"}}', headers: bytes = b"Retry-After: 7\r\n") -> Script:
    return plays(answer(body, status=status, headers=headers))


@pytest.mark.parametrize(
    "breaks",
    [
        plays_and_closes(),
        plays_and_resets(),
        plays_and_closes(SSE_HEAD),
        plays_and_resets(SSE_HEAD),
        plays(b"not HTTP at all\r\n\r\n"),
        plays_and_closes(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\nhalf"),
    ],
    ids=["closes", "resets", "closes after head", "resets after head", "no HTTP", "half a 503"],
)
async def test_a_replica_that_breaks_before_its_first_byte_is_replaced_unseen(breaks: Script) -> None:
    """The client gets one clean stream; the second replica gets the very same request."""
    async with (
        ScriptedServer(breaks) as bad,
        ScriptedServer(GOOD) as good,
        running_edge(bad.origin, good.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.complete) == (200, b"data: good\n\n", True)
        assert got.value("x-prefixway-replica") == b"b"
        assert (good.requests[0].body, good.requests[0].values("content-length")) == (BODY, [b"%d" % len(BODY)])
        await eventually(lambda: edge.exchanges)
        assert edge.router.outcomes == [Outcome.BROKEN, Outcome.OK]
        assert (edge.exchanges[0].attempts, edge.exchanges[0].outcome) == (2, "ok")


async def test_refused_connections_are_tried_elsewhere_three_times() -> None:
    """The fourth replica still gets it; a fifth would not be asked."""
    async with (
        ScriptedServer(GOOD) as good,
        running_edge(refused(), refused(), refused(), good.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).body == b"data: good\n\n"
        assert edge.router.outcomes == [Outcome.UNREACHABLE] * 3 + [Outcome.OK]
    async with running_edge(*(refused() for _ in range(5))) as edge, RawClient(edge.port) as client:
        got = await client.ask(post(BODY))
        assert (got.status, json.loads(got.body)["error"]["code"]) == (502, "replica_unreachable")
        assert len(edge.router.attempts) == 4
        assert (edge.exchanges[0].outcome, edge.exchanges[0].error) == ("unreachable", "ReplicaUnreachable")


async def test_each_replica_is_tried_once() -> None:
    """With one replica there is nobody else to ask."""
    async with (
        ScriptedServer(plays_and_closes()) as bad,
        running_edge(bad.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).status == 502
        assert len(bad.requests) == 1
        assert edge.router.outcomes == [Outcome.BROKEN]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("429 Too Many Requests", Outcome.BUSY),
        ("503 Service Unavailable", Outcome.UNAVAILABLE),
        ("500 Internal Server Error", Outcome.SERVER_ERROR),
        ("502 Bad Gateway", Outcome.SERVER_ERROR),
    ],
)
async def test_pushback_and_errors_are_tried_elsewhere_once(status: str, outcome: Outcome) -> None:
    """The attempt is told what it was, and how long to stay away."""
    async with (
        ScriptedServer(busy(status)) as bad,
        ScriptedServer(GOOD) as good,
        running_edge(bad.origin, good.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).body == b"data: good\n\n"
        assert edge.router.outcomes == [outcome, Outcome.OK]
        assert edge.router.attempts[0].retry_after_s == (7.0 if status[:3] in ("429", "503") else None)
        assert edge.router.attempts[0].first_bytes == 0


async def test_when_all_push_back_the_last_answer_passes_untouched() -> None:
    """Its status, its body, its Retry-After; and no third replica is bothered."""
    last = b'{"error": {"message":"later",  "code":429}}'
    async with (
        ScriptedServer(busy("503 Service Unavailable")) as one,
        ScriptedServer(busy("429 Slow Down", last, b"Retry-After: 9\r\n")) as two,
        running_edge(one.origin, two.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.value("retry-after")) == (429, last, b"9")
        assert got.value("x-prefixway-replica") == b"b"
        assert edge.router.outcomes == [Outcome.UNAVAILABLE, Outcome.BUSY]
        assert edge.exchanges[0].outcome == "busy"


async def test_an_answer_kept_back_is_better_than_an_error_of_ours() -> None:
    """The first said 503, the second is down: the client gets the 503."""
    async with (
        ScriptedServer(busy("503 Service Unavailable")) as one,
        running_edge(one.origin, refused()) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.value("retry-after"), got.value("x-prefixway-replica")) == (503, b"7", b"a")
        assert edge.router.outcomes == [Outcome.UNAVAILABLE, Outcome.UNREACHABLE]
        assert edge.exchanges[0].decision is edge.router.attempts[0].decision
        assert edge.exchanges[0].outcome == "unavailable"


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable Entity"])
async def test_the_clients_faults_are_never_tried_again(status: str) -> None:
    """One call, and the replica's own words, to a stream request too."""
    words = b'{"error":{"message":"prompt too long \\u00e9",  "type":"BadRequestError"}}'
    async with (
        ScriptedServer(busy(status, words)) as one,
        ScriptedServer(GOOD) as two,
        running_edge(one.origin, two.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY.replace(b"}", b',"stream":true}')))
        assert (got.status, got.body) == (int(status[:3]), words)
        assert (len(one.requests), len(two.requests)) == (1, 0)
        assert edge.router.outcomes == [Outcome.CLIENT_ERROR]


async def test_a_large_error_answer_is_not_kept_back() -> None:
    """What is too large to hold passes as it comes."""
    words = b"x" * 200_000
    async with (
        ScriptedServer(busy("500 Oops", words)) as one,
        ScriptedServer(GOOD) as two,
        running_edge(one.origin, two.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.complete) == (500, words, True)
        assert not two.requests


async def test_a_bad_replica_costs_no_request() -> None:
    """One of two always says 503: all of 20 requests succeed."""
    async with (
        ScriptedServer(busy("503 Service Unavailable")) as bad,
        ScriptedServer(GOOD) as good,
        running_edge(bad.origin, good.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert {(await client.ask(post(BODY))).status for _ in range(20)} == {200}


async def test_a_kept_connection_that_was_closed_meanwhile_costs_nothing() -> None:
    """The same attempt goes on with a new connection to the same server."""
    closing = asyncio.Event()

    async def answers_and_is_closed(wire: Wire) -> None:
        await wire.send(answer(b"{}"))
        await wire.reader.readexactly(1)  # the next request, which this connection will not answer
        wire.reset()
        closing.set()

    async with (
        ScriptedServer(answers_and_is_closed, plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).status == 200
        assert (await client.ask(post(BODY))).status == 200
        assert closing.is_set()
        assert edge.router.outcomes == [Outcome.OK, Outcome.OK]
        assert [exchange.attempts for exchange in edge.exchanges] == [1, 1]
        assert server.connections == 2
        assert edge.upstream.stale == 1


async def test_a_first_byte_that_does_not_come_is_not_tried_again() -> None:
    """Another replica would prefill all of it anew."""

    async def says_nothing(wire: Wire) -> None:
        await wire.until_gone()

    async with (
        ScriptedServer(says_nothing) as one,
        ScriptedServer(GOOD) as two,
        running_edge(one.origin, two.origin, first_byte_timeout_s=0.5) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, json.loads(got.body)["error"]["code"]) == (504, "replica_timeout")
        assert edge.router.outcomes == [Outcome.FIRST_BYTE_TIMEOUT]
        assert not two.requests


async def test_silence_within_an_answer_ends_it() -> None:
    """With an error event, and an outcome of its own."""

    async def falls_silent(wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
        await wire.until_gone()

    async with (
        ScriptedServer(falls_silent) as server,
        running_edge(server.origin, silence_timeout_s=0.5) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert got.complete
        assert json.loads(got.body.split(b"data: ")[-1])["error"]["code"] == "replica_timeout"
        assert edge.router.outcomes == [Outcome.CHUNK_TIMEOUT]


async def test_a_client_that_leaves_between_attempts_is_let_go() -> None:
    """The attempt that runs is ended, those before it keep their endings."""

    async def waits(wire: Wire) -> None:
        await wire.until_gone()

    async with (
        ScriptedServer(waits) as slow,
        running_edge(refused(), slow.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))
        await eventually(lambda: slow.requests)
        client.reset()
        await eventually(lambda: edge.exchanges)
        assert edge.router.outcomes == [Outcome.UNREACHABLE, Outcome.CLIENT_GONE]


async def test_who_is_admitted_and_stopped_at_once_leaves_nothing() -> None:
    """The first one's end admits the second, which begins to connect, and is stopped before it has begun."""

    async def waits(wire: Wire) -> None:
        await wire.until_gone()

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer(waits))
        edge = await stack.enter_async_context(running_edge(server.origin, admission=admission_with(max_inflight=1)))
        clients = [await stack.enter_async_context(RawClient(edge.port)) for _ in range(6)]
        for client in clients:
            await client.send(post(BODY))
        await eventually(lambda: edge.admission.waiting == 5 and server.requests)
        edge.proxy.stop()
        gc.collect()  # a coroutine that nobody awaited would be told of, and that is an error here

        assert edge.proxy.under_way == 0
        assert [(await client.answer()).status for client in clients] == [503] * 6
        assert len(server.requests) == 1


async def test_a_large_body_is_not_kept_while_its_answer_streams() -> None:
    """Nothing is sent again once a byte has gone out; small bodies are not worth the trouble."""
    go_on = asyncio.Event()

    async def streams(wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
        await go_on.wait()
        await wire.send(LAST_CHUNK)

    body = b'{"model":"m","stream":true,"prompt":"%b"}' % (b"x" * 100_000)
    async with ScriptedServer(streams) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(body))
        await client.read_until(b"data: 1\n\n\r\n")
        held = [each for each in gc.get_objects() if isinstance(each, ClientRequest) and len(each.body) > 50_000]
        assert not held
        assert server.requests[0].body == body
        go_on.set()
        assert await client.read_until(LAST_CHUNK) == LAST_CHUNK


async def test_those_that_wait_go_first_when_the_gateway_stops() -> None:
    """Else each place that becomes free would send another request on its way, only to be broken off."""

    async def says_nothing(wire: Wire) -> None:
        await wire.until_gone()

    async with ScriptedServer(says_nothing) as server:
        admission = admission_with(max_inflight=2)
        async with running_edge(server.origin, admission=admission) as edge, AsyncExitStack() as clients:
            for _ in range(6):
                client = await clients.enter_async_context(RawClient(edge.port))
                await client.send(post(BODY))
            await eventually(lambda: (admission.inflight, admission.waiting) == (2, 4))
            edge.proxy.stop()
            assert len(edge.router.attempts) == 2
            assert {exchange.outcome for exchange in edge.exchanges} == {"shutdown"}
            assert len(edge.exchanges) == 6


async def test_what_is_worked_for_before_it_has_a_place_is_counted() -> None:
    """A burst whose prompts have to be looked up elsewhere does not look up more than can be served."""
    admission = admission_with(max_inflight=1, max_queue=2)
    async with (
        ScriptedServer(GOOD) as server,
        running_edge(server.origin, admission=admission) as edge,
        AsyncExitStack() as stack,
    ):
        edge.router.may_prepare.clear()
        clients = [await stack.enter_async_context(RawClient(edge.port)) for _ in range(8)]
        for client in clients:
            await client.send(post(BODY))
        await eventually(lambda: len(edge.exchanges) == 5)
        assert edge.router.waiting == 3
        assert {exchange.status for exchange in edge.exchanges} == {429}
        edge.router.may_prepare.set()
        await eventually(lambda: len(edge.exchanges) == 8)
        assert admission.preparing == 0


async def test_a_kept_connection_that_breaks_later_was_not_closed_before() -> None:
    """Its server has had the request, and may have begun to work: that is a break like any other."""

    async def answers_and_breaks_later(wire: Wire) -> None:
        await wire.send(answer(b"{}"))
        await wire.reader.readexactly(1)
        await broken.wait()
        wire.reset()

    broken = asyncio.Event()
    async with (
        ScriptedServer(answers_and_breaks_later) as server,
        ScriptedServer(GOOD) as other,
        running_edge(server.origin, other.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).status == 200
        await client.send(post(BODY))
        await eventually(lambda: edge.upstream.busy)
        for _ in range(3):  # half-seconds by the pool's clock
            edge.upstream._sweep()
        broken.set()
        assert (await client.answer()).body == b"data: good\n\n"
        assert edge.router.outcomes == [Outcome.OK, Outcome.BROKEN, Outcome.OK]
