"""The client's side of the wire: what uvicorn gives, what is mended, and that what we lean on is still there."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from contextlib import suppress

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.edge.client_protocol import MAX_HEAD_BYTES, MAX_PIPELINED
from gateway.fleet.outcome import Outcome
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import SSE_HEAD, ScriptedServer, Wire, answer, chunk, plays
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello"}'


def test_uvicorn_still_has_what_this_leans_on() -> None:
    """A new minor version must be looked at; the pin in pyproject lets none in unseen."""
    assert re.match(r"0\.54\.", uvicorn.__version__)
    cycle = inspect.getsource(RequestResponseCycle)
    for name in (
        "response_started response_complete disconnected keep_alive waiting_for_100_continue message_event on_response"
        " default_headers transport scope"
    ).split():
        assert f"self.{name} = " in cycle
    for name in "_start_asgi_task _should_upgrade on_url on_header on_headers_complete on_message_complete".split():
        assert callable(getattr(HttpToolsProtocol, name))
    assert "write_paused" in inspect.getsource(FlowControl)
    assert inspect.signature(HttpToolsProtocol._start_asgi_task).parameters.keys() == {"self", "cycle", "app"}


@pytest.mark.parametrize(
    "upgrade", [b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"]
)
@pytest.mark.parametrize("split", [False, True])
async def test_an_offer_to_upgrade_is_ignored_and_the_body_read(upgrade: bytes, split: bool) -> None:
    """As Java's HTTP client sends it with every first POST; the connection goes on in HTTP/1.1."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        request = post(BODY, headers=upgrade)
        head_ends = request.index(b"\r\n\r\n") + 4
        pieces = [request[:head_ends], request[head_ends:-3], request[-3:]] if split else [request]
        for piece in pieces:
            await client.send(piece)
            await asyncio.sleep(0)
        assert (await client.answer()).status == 200
        assert server.requests[0].body == BODY
        assert not server.requests[0].values("upgrade")
        assert not server.requests[0].values("http2-settings")
        assert (await client.ask(post(BODY))).status == 200
        chunked = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n" + upgrade + b"\r\n"
        assert (await client.ask(chunked + chunk(BODY) + b"0\r\n\r\n")).status == 200
        assert server.requests[2].body == BODY
        assert (await client.ask(get("/health", headers=upgrade))).status == 200


async def test_a_client_that_pipelines_and_leaves_is_noticed() -> None:
    """By the request that runs; the one that waits is never begun."""

    async def waits(wire: Wire) -> None:
        await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
        await wire.until_gone()

    async with ScriptedServer(waits) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY))
        await client.read_until(b"data: 1\n\n\r\n")
        await client.send(post(BODY))
        client.close()
        await eventually(lambda: edge.exchanges)
        assert edge.router.outcomes == [Outcome.CLIENT_GONE]
        assert len(server.requests) == 1


async def test_pipelined_requests_are_answered_in_order() -> None:
    """One after the other, each with its own body."""

    async def echoes(wire: Wire) -> None:
        await wire.send(answer(wire.request.body))

    async with ScriptedServer(echoes) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        bodies = [b'{"model":"m","prompt":"%d"}' % n for n in range(5)]
        await client.send(b"".join(post(body) for body in bodies))
        raw = b""
        for body in bodies:
            raw = await client.read_until(body)
        assert raw
        assert [request.body for request in server.requests] == bodies


async def test_too_many_pipelined_requests_end_the_connection_after_the_running_one() -> None:
    """Nothing grows without bound behind a slow answer."""
    done = asyncio.Event()

    async def waits(wire: Wire) -> None:
        await done.wait()
        await wire.send(answer(b"{}"))

    async with ScriptedServer(waits) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY) * (MAX_PIPELINED + 5))
        await eventually(lambda: server.requests)
        done.set()
        raw = await client.read_to_end()
        assert raw.count(b"HTTP/1.1 200") == 1
        assert b"connection: close" in raw


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (b"y" * (MAX_HEAD_BYTES + 1)), 431),
        (b"GET /health HTTP/1.1\r\nhost: a\r\n%b\r\n" % (b"x: y\r\n" * MAX_HEAD_BYTES), 431),
        (b"GET /health?%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"y" * (MAX_HEAD_BYTES + 1)), 431),
        (b"GET /health HTTP/1.1\r\nhost: a\r\nx: %b" % (b"y" * 1_000_000), 431),
    ],
)
async def test_what_cannot_be_a_request_is_refused_in_openais_shape(raw: bytes, status: int) -> None:
    """The client can read why, and the connection ends."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(raw)
        assert (got.status, got.complete, got.value("connection")) == (status, True, b"close")
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert await client.read_to_end() == b""


async def test_old_clients_need_no_host() -> None:
    """HTTP/1.0 did not know it."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        assert (await client.ask(b"GET /health HTTP/1.0\r\n\r\n")).status == 200


async def test_nonsense_after_a_request_does_not_spoil_its_answer() -> None:
    """The answer that runs is finished, then the connection ends."""
    done = asyncio.Event()

    async def waits(wire: Wire) -> None:
        await done.wait()
        await wire.send(answer(b'{"whole":true}'))

    async with ScriptedServer(waits) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY) + b"nonsense\r\n\r\n")
        await eventually(lambda: server.requests)
        done.set()
        raw = await client.read_to_end()
        assert raw.startswith(b"HTTP/1.1 200")
        assert raw.endswith(b'{"whole":true}')


async def test_100_continue_is_given_when_the_body_is_wanted() -> None:
    """And not when the request is refused before."""
    async with ScriptedServer(plays(answer(b"{}"))) as server, running_edge(server.origin) as edge:
        async with RawClient(edge.port) as client:
            request = post(BODY, headers=b"Expect: 100-continue\r\n")
            await client.send(request[: -len(BODY)])
            assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await client.ask(BODY)).status == 200
            assert not server.requests[0].values("expect")
        async with RawClient(edge.port) as client:
            request = post(BODY, path="/sleep", headers=b"Expect: 100-continue\r\n")
            await client.send(request[: -len(BODY)])
            assert (await client.answer()).status == 404


async def test_header_names_keep_their_case() -> None:
    """On their way to the replica."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(BODY, headers=b"X-MiXeD: 1\r\nContent-Type: application/json\r\n"))
        assert b"\r\nX-MiXeD: 1\r\nContent-Type: application/json\r\n" in server.requests[0].head


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [post(b"{}"), get("/health"), b"POST / HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n", b"\r\n\r\n"]
            ),
        ),
        max_size=8,
    )
)
def test_no_bytes_of_a_client_break_the_server(pieces: list[bytes]) -> None:
    """After whatever one client sent, another is served, and nothing is left over."""

    async def scenario() -> None:
        async with running_edge() as edge:
            async with RawClient(edge.port) as client:
                with suppress(ConnectionError):
                    await client.send(*pieces)
            async with RawClient(edge.port) as client:
                assert (await client.ask(get("/health"))).status == 200

    asyncio.run(scenario())
