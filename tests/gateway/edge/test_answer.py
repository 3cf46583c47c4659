"""How an answer is framed for the client at hand, and how a break looks to it."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable

import pytest

from gateway.edge.client_request import ClientRequest
from gateway.edge.tls import TlsFiles
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import TLS, StandInHandler, echo, hold, serving
from tests.fakes.waiting import eventually

BODY = b'{"prompt":"hello"}'
EVENT = b"data: 1\n\n"
TYPE = [(b"content-type", b"text/event-stream")]


def start_stream(request: ClientRequest) -> None:
    request.answer.start(200, TYPE, has_length=False)


def stream(request: ClientRequest) -> None:
    """Two pieces and an end."""
    start_stream(request)
    for _ in range(2):
        request.answer.send(EVENT, last=False)
    request.answer.send(b"", last=True)


def break_off(request: ClientRequest) -> None:
    start_stream(request)
    request.answer.send(EVENT, last=False)
    request.answer.truncate()


def start_with_length(request: ClientRequest) -> None:
    request.answer.start(200, [(b"content-length", b"100")], has_length=True)
    request.answer.send(EVENT, last=False)
    request.answer.truncate()


def old(raw: bytes) -> bytes:
    return raw.replace(b"HTTP/1.1", b"HTTP/1.0")


async def raw_answer(answers: Callable[[ClientRequest], None], request: bytes) -> bytes:
    """All the bytes that come of a request, on a connection that the answer ends."""

    def last_answer(asked: ClientRequest) -> None:
        asked.answer.end_connection()
        answers(asked)

    handler = StandInHandler(last_answer)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(request)
        return await client.read_to_end()


async def test_a_stream_goes_in_chunks() -> None:
    """Head, frames, end; the last piece and the end may be one."""

    def ends_with_its_last_piece(request: ClientRequest) -> None:
        start_stream(request)
        request.answer.send(EVENT, last=False)
        request.answer.send(EVENT, last=True)

    for answers in (stream, ends_with_its_last_piece):
        assert await raw_answer(answers, get("/x")) == (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n"
            b"\r\n" + chunk(EVENT) * 2 + LAST_CHUNK
        )


async def test_an_answer_may_have_no_headers() -> None:
    """Then its head is one line, and the framing."""

    def bare(request: ClientRequest) -> None:
        request.answer.start(200, [], has_length=False)
        request.answer.send(b"x", last=True)

    handler = StandInHandler(bare)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(get("/x"))
        raw = await client.read_until(LAST_CHUNK)
        assert raw == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"x") + LAST_CHUNK


async def test_the_head_waits_for_the_first_piece_or_a_flush() -> None:
    """Until then nothing has been said that could not be taken back."""
    handler = StandInHandler(start_stream)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(get("/x"))
        await eventually(lambda: handler.served)
        answer = handler.served[0].answer
        assert (answer.started, answer.ended, answer.body_bytes) == (True, False, 0)
        answer.flush()
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        answer.send(EVENT, last=False)
        assert await client.read_until(EVENT + b"\r\n") == chunk(EVENT)
        answer.send(b"", last=True)
        assert await client.read_until(LAST_CHUNK) == LAST_CHUNK
        assert (answer.ended, answer.body_bytes, answer.status, answer.gone) == (True, len(EVENT), 200, False)
        answer.send(EVENT, last=True)  # too late, and harmless
        answer.truncate()
        answer.respond(500, b"")
        handler.answers = echo
        assert (await client.ask(get("/y"))).body == b"/y"


@pytest.mark.parametrize(
    ("status", "reason", "line"),
    [(200, b"Fine", b"200 Fine"), (200, b"", b"200 OK"), (299, b"", b"299 "), (404, b"", b"404 Not Found")],
)
async def test_a_reason_is_kept_or_the_usual_one_said(status: int, reason: bytes, line: bytes) -> None:
    """And an unknown status has none."""

    def answers(request: ClientRequest) -> None:
        request.answer.start(status, [], has_length=False, reason=reason)
        request.answer.send(b"", last=True)

    assert (await raw_answer(answers, get("/x"))).startswith(b"HTTP/1.1 " + line + b"\r\n")


async def test_extra_headers_are_in_every_head() -> None:
    """After the others."""

    def answers(request: ClientRequest) -> None:
        request.answer.extra_headers = [(b"vary", b"origin")]
        echo(request)

    assert b"\r\ncontent-length: 2\r\nvary: origin\r\n" in await raw_answer(answers, get("/x"))


async def test_our_own_answers_have_a_date_and_no_server() -> None:
    """RFC 9110 section 6.6.1 asks it of a server with a clock. Nothing is there twice."""
    raw = await raw_answer(echo, get("/x"))
    head = raw.partition(b"\r\n\r\n")[0].lower()
    assert re.search(rb"\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d gmt\r\n", head)
    names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]]
    assert sorted(names) == [b"connection", b"content-length", b"content-type", b"date"]


@pytest.mark.parametrize("answers", [echo, stream])
async def test_the_answer_to_head_is_a_head(answers: Callable[[ClientRequest], None]) -> None:
    """It states the length that a GET would have, and the connection goes on right after it."""
    handler = StandInHandler(answers)
    async with serving(handler) as server, RawClient(server.port) as client:
        head = await client.ask(get("/x", method="HEAD"), head_only=True)
        assert head.values("content-length") == ([b"2"] if answers is echo else [])
        assert not head.values("transfer-encoding")
        assert handler.served[0].answer.body_bytes == 0
        assert (await client.ask(get("/x"))).complete


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("has_length", [False, True])
async def test_some_statuses_have_no_body(status: int, has_length: bool) -> None:
    """Whatever is sent; the connection goes on right after the head."""

    def answers(request: ClientRequest) -> None:
        request.answer.start(status, [], has_length=has_length)
        request.answer.send(b"x", last=True)

    handler = StandInHandler(answers)
    async with serving(handler) as server, RawClient(server.port) as client:
        for raw in (get("/x"), get("/x"), old(get("/x", headers=b"connection: keep-alive\r\n"))):
            got = await client.ask(raw)
            assert (got.status, got.body, got.complete) == (status, b"", True)
            assert not got.values("transfer-encoding")


async def test_a_client_that_wants_to_close_is_closed() -> None:
    """After its answer, which says so."""
    async with serving(StandInHandler()) as server, RawClient(server.port) as client:
        got = await client.ask(post(BODY, headers=b"connection: close\r\n"))
        assert (got.complete, got.value("connection")) == (True, b"close")
        assert await client.read_to_end() == b""


@pytest.mark.parametrize("headers", [b"", b"connection: keep-alive\r\n"])
async def test_old_clients_get_a_stream_that_ends_with_the_connection(headers: bytes) -> None:
    """HTTP/1.0 knows no chunks."""
    async with serving(StandInHandler(stream)) as server, RawClient(server.port) as client:
        await client.send(old(get("/x", headers=headers)))
        head, _, body = (await client.read_to_end()).partition(b"\r\n\r\n")
        assert body == EVENT * 2
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head


async def test_old_clients_keep_a_connection_only_if_they_ask() -> None:
    """And are told so, for to them it is no matter of course."""
    async with serving(StandInHandler()) as server:
        async with RawClient(server.port) as client:
            for _ in range(2):
                got = await client.ask(old(post(BODY, headers=b"Connection: Keep-Alive\r\n")))
                assert got.values("connection") == [b"keep-alive"]
        async with RawClient(server.port) as client:
            assert (await client.ask(old(post(BODY)))).values("connection") == [b"close"]
            assert await client.read_to_end() == b""


@pytest.mark.parametrize("answers", [break_off, start_with_length])
async def test_a_break_is_no_end(answers: Callable[[ClientRequest], None]) -> None:
    """What was sent is there, and what is missing is missed; the handler is not told that the client left."""
    handler = StandInHandler(answers)
    async with serving(handler) as server, RawClient(server.port) as client:
        got = await client.ask(get("/x"))
        assert (got.body, got.complete) == (EVENT, False)
        assert not handler.gone
        await eventually(lambda: server.connections == 0)


async def test_old_clients_see_a_break_as_a_reset() -> None:
    """An orderly end would pass for the end of the body."""
    async with serving(StandInHandler(break_off)) as server, RawClient(server.port) as client:
        await client.send(old(get("/x")))
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()


async def test_under_tls_a_break_is_no_orderly_end_either() -> None:
    """Nor is an answer that is whole a broken one."""
    trusting = ssl.create_default_context(cafile=TLS / "certificate.pem")
    tls = TlsFiles(TLS / "certificate.pem", TLS / "key.pem").context
    handler = StandInHandler(stream)
    async with serving(handler, tls=tls) as server:
        async with RawClient(server.port, tls=trusting) as client:
            await client.send(old(get("/x")))
            assert (await client.read_to_end()).endswith(EVENT * 2)
        handler.answers = break_off
        async with RawClient(server.port, tls=trusting) as client:
            await client.send(old(get("/x")))
            with pytest.raises((ConnectionResetError, ssl.SSLError)):
                await client.read_to_end()


class Recorded:
    """A source that says what it was told. ``then``: when it may go on."""

    def __init__(self, calls: list[str], then: Callable[[], None] = lambda: None) -> None:
        self._calls = calls
        self._then = then

    def pause_reading(self) -> None:
        self._calls.append("pause")

    def resume_reading(self) -> None:
        self._calls.append("resume")
        self._then()


@pytest.mark.parametrize("tls", [False, True])
async def test_a_client_that_reads_nothing_pauses_the_writer(tls: bool) -> None:
    """Until it reads on; then everything is there. What watches only then is paused at once."""
    calls: list[str] = []
    handler = StandInHandler(hold)
    serving_tls = TlsFiles(TLS / "certificate.pem", TLS / "key.pem").context if tls else None
    trusting = ssl.create_default_context(cafile=TLS / "certificate.pem") if tls else None
    piece = b"x" * 500_000
    async with serving(handler, tls=serving_tls) as server, RawClient(server.port, tls=trusting) as client:
        await client.send(get("/x"))
        await eventually(lambda: handler.served)
        answer = handler.served[0].answer
        answer.start(200, [], has_length=False)
        answer.watch(Recorded(calls))
        sent = 0
        while calls[-1:] != ["pause"] or sent < 20:
            answer.send(piece, last=False)
            sent += 1
            await asyncio.sleep(0)
        late: list[str] = []
        answer.watch(Recorded(late, then=lambda: answer.send(b"", last=True)))
        assert late == ["pause"]
        got = await client.answer()
        assert (len(got.body), got.complete) == (sent * len(piece), True)
        assert late == ["pause", "resume"]
