"""Answers as servers really give them, cut anywhere, pushed into a recording receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.upstream_connection import MAX_HEAD_BYTES, ResponseHead, UpstreamConnection, UpstreamError
from gateway.edge.upstream_pool import UpstreamPool
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from tests.fakes.closed_outbox import ClosedOutbox
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


@dataclass
class Recorder:
    """A receiver that remembers, and complains about calls out of order."""

    heads: list[ResponseHead] = field(default_factory=list)
    data: bytes = b""
    complete: bool = False
    error: UpstreamError | None = None

    @property
    def over(self) -> bool:
        return self.complete or self.error is not None

    def head(self, head: ResponseHead) -> None:
        assert not self.heads
        assert not self.over
        self.heads.append(head)

    def body(self, data: bytes, complete: bool) -> None:
        assert self.heads
        assert not self.over
        self.data += data
        self.complete = complete

    def broken(self, error: UpstreamError) -> None:
        assert not self.over
        self.error = error


REQUEST = b"POST /v1/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n"


async def ask(pool: UpstreamPool, origin: Origin, *, method: str = "POST") -> Recorder:
    """One request on a kept or new connection."""
    recorder = Recorder()
    connection = pool.take_idle(origin) or await pool.connect(origin)
    connection.send(REQUEST, b"{}", recorder, method=method)
    await eventually(lambda: recorder.over)
    return recorder


@pytest.fixture
async def pool() -> UpstreamPool:
    return UpstreamPool()


async def test_a_head_comes_as_it_was_sent(pool: UpstreamPool) -> None:
    """Status, reason, order, case, repetitions and odd bytes."""
    raw = b"HTTP/1.1 418 I'm a teapot\r\nX-B: 1\r\nx-a: \xff\r\nX-B: 2\r\ncontent-length: 2\r\n\r\nhi"
    async with ScriptedServer(plays(raw)) as server:
        got = await ask(pool, server.origin)
        assert got.heads == [
            ResponseHead(
                418,
                b"I'm a teapot",
                [(b"X-B", b"1"), (b"x-a", b"\xff"), (b"X-B", b"2"), (b"content-length", b"2")],
                {b"x-b": b"1", b"x-a": b"\xff", b"content-length": b"2"},
            )
        ]
        assert (got.data, got.complete) == (b"hi", True)
        assert repr(pool) == "<UpstreamPool 0 busy, 1 idle>"
        pool.close()


@pytest.mark.parametrize(
    "whole",
    [
        answer(b"x" * 100_000),
        answer(b""),
        SSE_HEAD + chunk("data: ü\n\n".encode()) + LAST_CHUNK,
        SSE_HEAD + chunk(b"a") + b"0\r\nx-trailer: 1\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + answer(b"hi"),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + answer(b"hi"),
    ],
)
async def test_answers_end_by_their_own_framing_and_the_connection_is_kept(pool: UpstreamPool, whole: bytes) -> None:
    """Length, chunks, trailers, no body, interim answers first: all leave the connection fit for the next."""
    async with ScriptedServer(plays(whole)) as server:
        first = await ask(pool, server.origin)
        second = await ask(pool, server.origin)
        assert first.complete
        assert second.complete
        assert first.data == second.data
        assert server.connections == 1
        pool.close()


@pytest.mark.parametrize(
    "last",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        answer(b"hi") + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        answer(b"hi") + b"garbage",
    ],
)
async def test_a_connection_that_cannot_be_trusted_is_not_kept(pool: UpstreamPool, last: bytes) -> None:
    """After ``close``, an old version, or bytes nobody asked for, the next request gets a new connection."""
    async with ScriptedServer(plays(last)) as server:
        for _ in range(2):
            got = await ask(pool, server.origin)
            assert (got.data, got.complete) == (b"hi", True)
        assert server.connections == 2
        pool.close()


async def test_bytes_on_an_idle_connection_close_it(pool: UpstreamPool) -> None:
    """What comes without a request can only be a mistake."""
    go_on = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.send(answer(b"hi"))
        await go_on.wait()
        await wire.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    async with ScriptedServer(script) as server:
        await ask(pool, server.origin)
        go_on.set()
        await eventually(lambda: pool.idle == 0)
        assert pool.take_idle(server.origin) is None


async def test_the_end_of_the_connection_ends_an_answer_without_framing(pool: UpstreamPool) -> None:
    """Neither length nor chunks: all until the close is the body."""
    async with ScriptedServer(plays_and_closes(b"HTTP/1.1 200 OK\r\n\r\n", b"all of it")) as server:
        got = await ask(pool, server.origin)
        assert (got.data, got.complete, got.heads[0].has_length) == (b"all of it", True, False)
    await eventually(lambda: pool.idle == 0)


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi",
        SSE_HEAD,
        SSE_HEAD + chunk(b"data: 1\n\n"),
        SSE_HEAD + b"9\r\ndata",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
    ],
)
@pytest.mark.parametrize("end", [plays_and_closes, plays_and_resets])
async def test_an_answer_cut_off_is_broken(pool: UpstreamPool, half: bytes, end: type) -> None:
    """A framed answer that the connection ends, with FIN or RST, is a truncation."""
    async with ScriptedServer(end(half) if half else end()) as server:
        got = await ask(pool, server.origin)
        assert got.error is not None
        assert got.error.outcome is Outcome.BROKEN
    assert repr(pool) == "<UpstreamPool 0 busy, 0 idle>"


async def test_a_reset_breaks_even_an_answer_without_framing(pool: UpstreamPool) -> None:
    """Only an orderly end can be the end of a body."""
    heard = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await heard.wait()
        wire.reset()

    async with ScriptedServer(script) as server:
        recorder = Recorder()
        (await pool.connect(server.origin)).send(REQUEST, b"{}", recorder)
        await eventually(lambda: recorder.data)
        heard.set()
        await eventually(lambda: recorder.error)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 99 Low\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 000 None\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 600 High\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 999 High\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * (3 * MAX_HEAD_BYTES),
    ],
)
async def test_what_is_not_an_answer_breaks_the_attempt(pool: UpstreamPool, raw: bytes) -> None:
    """Other protocols, contradictory framing and boundless heads."""
    async with ScriptedServer(plays(raw)) as server:
        got = await ask(pool, server.origin)
        assert got.error is not None
        assert got.error.outcome is Outcome.BROKEN
        assert not got.data
    await eventually(lambda: repr(pool) == "<UpstreamPool 0 busy, 0 idle>")


async def test_the_answer_to_head_has_no_body_and_ends_its_connection(pool: UpstreamPool) -> None:
    """Its length is that of a body that does not come; the next answer is not mistaken for it."""
    async with ScriptedServer(plays(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n"), plays(answer(b"hi"))) as server:
        head = await ask(pool, server.origin, method="HEAD")
        assert (head.data, head.complete) == (b"", True)
        assert (await ask(pool, server.origin)).data == b"hi"
        assert server.connections == 2
        pool.close()


async def test_a_kept_connection_that_dies_unanswered_may_be_resent(pool: UpstreamPool) -> None:
    """And only that: not a new connection, and not after a byte came."""

    async def hang_up(wire: Wire) -> None:
        wire.close()

    async with ScriptedServer(plays(answer(b"hi")), hang_up) as server:
        await ask(pool, server.origin)
        got = await ask(pool, server.origin)
        assert got.error is not None
        assert got.error.outcome is Outcome.STALE


async def test_an_answer_before_the_body_is_read_ends_the_connection(pool: UpstreamPool) -> None:
    """Its rest would be taken for the next request."""
    seen = asyncio.Event()
    sender = Recorder()

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"no", status="413 Too Large"))
        await seen.wait()
        writer.close()

    server = await asyncio.start_server(refuses, "127.0.0.1", 0)
    async with server:
        connection = await pool.connect(Origin(False, "127.0.0.1", server.sockets[0].getsockname()[1]))
        connection.send(b"POST / HTTP/1.1\r\nhost: h\r\n\r\n", b"z" * 30_000_000, sender)
        await eventually(lambda: sender.over)
        assert (sender.complete, connection.closed) == (True, True)
        seen.set()
    await eventually(lambda: repr(pool) == "<UpstreamPool 0 busy, 0 idle>")


async def test_a_large_body_arrives_whole(pool: UpstreamPool) -> None:
    """Head and body may leave in several writes."""
    body = b"z" * 3_000_000
    async with ScriptedServer(plays(answer(b"ok"))) as server:
        recorder = Recorder()
        head = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(body)
        (await pool.connect(server.origin)).send(head, body, recorder)
        await eventually(lambda: recorder.over)
        assert server.requests[0].body == body
        pool.close()


async def test_pausing_stops_the_server_and_resuming_loses_nothing(pool: UpstreamPool) -> None:
    """Back pressure reaches the server's socket."""
    sent = 0
    size = 8_000_000

    async def flood(wire: Wire) -> None:
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            await wire.send(b"x" * 50_000)
            sent += 50_000

    async with ScriptedServer(flood) as server:
        recorder = Recorder()
        connection = await pool.connect(server.origin)
        connection.send(REQUEST, b"{}", recorder)
        connection.pause_reading()
        await _stands_still(lambda: sent)
        assert sent < size
        connection.resume_reading()
        await eventually(lambda: recorder.complete)
        assert len(recorder.data) == size
        pool.close()


async def _stands_still(value: object) -> None:
    """Return when a count has not changed for many turns of the loop."""
    assert callable(value)
    last, same = value(), 0
    while same < 20:
        await asyncio.sleep(0.005)
        same = same + 1 if value() == last else 0
        last = value()


def feed(pieces: Sequence[bytes]) -> Recorder:
    """Drive the parser alone, without a socket."""
    recorder = Recorder()
    connection = UpstreamConnection(Origin(False, "h", 1), _NoOwner())
    connection.connection_made(_NoTransport())
    connection.send(b"", b"", recorder)
    for piece in pieces:
        if not connection.closed:
            connection.data_received(piece)
    if not connection.closed:
        connection.connection_lost(None)
    return recorder


class _NoOwner:
    outbox = ClosedOutbox()

    def released(self, connection: UpstreamConnection) -> None: ...

    def lost(self, connection: UpstreamConnection) -> None: ...


class _NoTransport(asyncio.Transport):
    """Takes what is written and remembers being closed."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def abort(self) -> None:
        self._closed = True

    def close(self) -> None:
        self._closed = True

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0


STREAM = b"HTTP/1.1 100 Continue\r\n\r\n" + SSE_HEAD + chunk("ä€😀".encode()) + chunk(b"\n\n" * 20) + LAST_CHUNK


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_where_reads_cut_an_answer_does_not_matter(cuts: list[int]) -> None:
    """Every partition of the same bytes gives the same answer."""
    edges = [0, *sorted(cuts), len(STREAM)]
    got = feed([STREAM[a:b] for a, b in pairwise(edges)])
    assert (got.data, got.complete, len(got.heads)) == ("ä€😀".encode() + b"\n\n" * 20, True, 1)


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([STREAM, answer(b"hi"), SSE_HEAD, b"5\r\n", b"\r\n"])))
)
def test_no_bytes_confuse_it(pieces: list[bytes]) -> None:
    """Whatever a server sends, the receiver hears one orderly story with an end."""
    assert feed(pieces).over
