"""One attempt's answer: when its head goes out, and what becomes of it if the replica dies in the middle."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.fleet.outcome import Outcome
from gateway.usage import Usage
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    ScriptedServer,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
    plays_and_resets,
)
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello","stream":true}'
EVENT = b'data: {"choices":[{"text":"hi"}]}\n\n'


async def test_the_head_waits_for_the_first_byte_or_not() -> None:
    """As the setting says."""
    more = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await more.wait()
        await wire.send(chunk(EVENT), LAST_CHUNK)

    async with ScriptedServer(script) as server:
        async with running_edge(server.origin, hold_head=False) as edge, RawClient(edge.port) as client:
            await client.send(post(BODY))
            assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            assert edge.router.attempts[0].first_bytes == 0
            more.set()
            assert await client.read_until(LAST_CHUNK) == chunk(EVENT) + LAST_CHUNK
            assert edge.router.attempts[0].first_bytes == 1
        more.clear()
        async with running_edge(server.origin, hold_head=True) as edge, RawClient(edge.port) as client:
            await client.send(post(BODY))
            await eventually(lambda: edge.upstream.busy and len(server.requests) == 2)
            assert not client.reader._buffer  # type: ignore[attr-defined]
            more.set()
            assert (await client.answer()).body == EVENT


@pytest.mark.parametrize("end", [plays_and_closes, plays_and_resets])
@pytest.mark.parametrize("events", [1, 3])
async def test_a_stream_that_dies_ends_with_one_error_event(end: object, events: int) -> None:
    """Well formed, after all that came, with a clean end and nothing that looks like a finish."""
    assert callable(end)
    died = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.send(SSE_HEAD, *[chunk(EVENT)] * events)
        await died.wait()
        await end()(wire)

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY))
        await eventually(lambda: edge.router.attempts and edge.router.attempts[0].first_bytes)
        died.set()
        got = await client.answer()
        assert got.complete
        *came, last, nothing = got.body.split(b"\n\n")
        assert came == [EVENT.removesuffix(b"\n\n")] * events
        error = json.loads(last.removeprefix(b"data: "))["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert nothing == b""
        await eventually(lambda: edge.exchanges)
        assert edge.router.outcomes == [Outcome.CUT_OFF]
        assert (edge.exchanges[0].outcome, edge.exchanges[0].attempts) == ("cut_off", 1)


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/responses", "error"), ("/v1/messages", "error"), ("/v1/chat/completions", None)]
)
async def test_the_error_event_speaks_the_language_of_its_api(path: str, kind: str | None) -> None:
    """Named where events have names; always with an error object."""
    body = b'{"model":"m","input":"x","messages":[],"stream":true}'
    async with (
        ScriptedServer(plays_and_closes(SSE_HEAD + chunk(EVENT))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(body, path=path))
        *names, data = got.body.removeprefix(EVENT).removesuffix(b"\n\n").split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert names == ([b"event: error"] if kind else [])
        assert event["error"]["code"] == "replica_broke_off"
        assert event.get("type") == "error"


async def test_an_event_cut_in_half_does_not_swallow_the_error() -> None:
    """The error stands in an event of its own."""
    async with (
        ScriptedServer(plays_and_closes(SSE_HEAD + chunk(EVENT + b'data: {"cho'))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert got.body.startswith(EVENT + b'data: {"cho\n\ndata: {"error"')
        assert got.complete


@pytest.mark.parametrize(
    "half",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"{"),
        SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + chunk(b"\x1f\x8b"),
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\ndata: 1\n\n",
    ],
    ids=["length", "chunks", "compressed events", "events with a length"],
)
async def test_any_other_answer_that_dies_is_cut_off(half: bytes) -> None:
    """The client sees that it has not got all of it."""
    async with (
        ScriptedServer(plays_and_closes(half)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.complete) == (200, False)
        assert edge.router.outcomes == [Outcome.CUT_OFF]


async def test_the_usage_of_a_stream_is_overheard() -> None:
    """From the usage event, however it is spaced; the bytes pass untouched."""
    events = b'data:{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\r\n\r\ndata: [DONE]\r\n\r\n'
    async with (
        ScriptedServer(plays(SSE_HEAD, chunk(events[:40]), chunk(events[40:]), LAST_CHUNK)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).body == events
        await eventually(lambda: edge.exchanges)
        assert edge.exchanges[0].usage == Usage(5, 2, None)


async def test_an_engine_that_died_behind_its_server_is_a_failure() -> None:
    """vLLM says so inside a 200; the client sees what it said, the attempt is told what it was."""
    events = (
        EVENT + b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\ndata: [DONE]\n\n'
    )
    async with (
        ScriptedServer(plays(SSE_HEAD, chunk(events), LAST_CHUNK)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).body == events
        assert edge.router.outcomes == [Outcome.SERVER_ERROR]


@pytest.mark.parametrize("head", [SSE_HEAD + LAST_CHUNK, answer(b"")])
async def test_an_answer_without_a_body_is_passed_when_it_is_complete(head: bytes) -> None:
    """There is no first byte to wait for."""
    async with (
        ScriptedServer(plays(head)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.complete) == (200, b"", True)
        assert (edge.router.outcomes, edge.router.attempts[0].first_bytes) == ([Outcome.OK], 0)


async def test_an_answer_that_says_no_content_states_no_length() -> None:
    """RFC 9110 section 8.6; and the connection goes on."""
    odd = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nx-a: 1\r\n\r\n"
    async with (
        ScriptedServer(plays(odd), plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.values("content-length"), got.value("x-a")) == (204, [], b"1")
        assert (await client.ask(post(BODY))).status == 200


async def test_odd_usage_spoils_no_answer() -> None:
    """Whatever a replica says of its tokens, its answer is whole, also where it ends with the connection."""
    body = b'{"usage":{"prompt_tokens":"1",,"completion_tokens":1e400}}'
    async with (
        ScriptedServer(plays_and_closes(b"HTTP/1.1 200 OK\r\n\r\n" + body)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.body, got.complete) == (body, True)
        assert edge.router.outcomes == [Outcome.OK]
