"""Bytes in, requests out: over real sockets for what must be refused, and directly for what no bytes may do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.client_request import ClientRequest
from gateway.edge.request_head import MAX_HEAD_BYTES, MAX_HEADER_LINES
from gateway.edge.request_reader import MAX_PIPELINED, RequestReader
from tests.fakes.closed_outbox import ClosedOutbox
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import StandInHandler, serving

BODY = b'{"prompt":"hello"}'
LINE = b"POST /x HTTP/1.1\r\n"
HEAD = LINE + b"host: g\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
H2C = b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"

LENGTHS = {
    "two lengths that differ": b"content-length: 18\r\ncontent-length: 19\r\n",
    "two equal lengths": b"content-length: 18\r\nContent-Length: 18\r\n",
    "a list of lengths": b"content-length: 18, 18\r\n",
    "a signed length": b"content-length: +18\r\n",
    "a negative length": b"content-length: -18\r\n",
    "a hexadecimal length": b"content-length: 0x12\r\n",
    "an empty length": b"content-length:\r\n",
    "a length of two numbers": b"content-length: 1 8\r\n",
    "a length that overflows": b"content-length: 18446744073709551634\r\n",
    "a folded length": b"content-length:\r\n 18\r\n",
    "length, then chunks": b"content-length: 18\r\ntransfer-encoding: chunked\r\n",
    "chunks, then length": b"transfer-encoding: chunked\r\ncontent-length: 18\r\n",
    "chunked, identity": b"transfer-encoding: chunked, identity\r\n",
    "identity": b"transfer-encoding: identity\r\n",
    "gzip, chunked": b"transfer-encoding: gzip, chunked\r\n",
    "nothing, chunked": b"transfer-encoding: , chunked\r\n",
    "chunked twice": b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "not quite chunked": b"transfer-encoding: xchunked\r\n",
    "chunked after a control character": b"transfer-encoding: \x0bchunked\r\n",
    "a space before the colon": b"transfer-encoding : chunked\r\n",
}
CHUNKS = {
    "a size that overflows": b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "a signed size": b"+2\r\n{}\r\n0\r\n\r\n",
    "a negative size": b"-2\r\n{}\r\n0\r\n\r\n",
    "a prefixed size": b"0x2\r\n{}\r\n0\r\n\r\n",
    "an underscored size": b"1_0\r\n{}\r\n0\r\n\r\n",
    "an empty size": b"\r\n{}\r\n0\r\n\r\n",
    "a space before the size": b" 2\r\n{}\r\n0\r\n\r\n",
    "a space after the size": b"2 \r\n{}\r\n0\r\n\r\n",
    "bare LF after the size": b"2\n{}\r\n0\r\n\r\n",
    "bare LF after the data": b"2\r\n{}\n0\r\n\r\n",
    "nothing after the data": b"2\r\n{}0\r\n\r\n",
    "more than the size": b"2\r\n{}}\r\n0\r\n\r\n",
    "bare LF in an extension": b"2;a\nb\r\n{}\r\n0\r\n\r\n",
    "NUL in an extension": b"2;a\0\r\n{}\r\n0\r\n\r\n",
    "bare LF at the end": b"2\r\n{}\r\n0\r\n\n",
    "a length in the trailers": b"2\r\n{}\r\n0\r\ncontent-length: 5\r\n\r\n",
}
HEADS = {
    "bare LF after the request line": b"POST /x HTTP/1.1\nhost: g\r\n\r\n",
    "bare LF after a header": LINE + b"host: g\nx: y\r\n\r\n",
    "bare LF at the end": LINE + b"host: g\r\n\n",
    "bare CR in a header": LINE + b"host: g\rx: y\r\n\r\n",
    "a folded header": HEAD + b"x: y\r\n z\r\n\r\n",
    "a folded first header": LINE + b" host: g\r\n\r\n",
    "a header without a colon": HEAD + b"x\r\n\r\n",
    "a header without a name": HEAD + b": y\r\n\r\n",
    "NUL in a value": HEAD + b"x: a\0b\r\n\r\n",
    "DEL in a value": HEAD + b"x: a\x7fb\r\n\r\n",
    "a control character in a value": HEAD + b"x: a\x01b\r\n\r\n",
    "no host": LINE + b"x: y\r\n\r\n",
    "two hosts": HEAD + b"Host: g\r\n\r\n",
    "an empty host": LINE + b"host:\r\n\r\n",
    "a host that is a list": LINE + b"host: a, b\r\n\r\n",
    "an asterisk": b"GET * HTTP/1.1\r\nhost: g\r\n\r\n",
    "an authority": b"GET g:80 HTTP/1.1\r\nhost: g\r\n\r\n",
    "a tunnel": b"CONNECT g:80 HTTP/1.1\r\nhost: g\r\n\r\n",
    "a user": b"GET http://user@g/x HTTP/1.1\r\nhost: g\r\n\r\n",
    "a fragment": b"GET /x#y HTTP/1.1\r\nhost: g\r\n\r\n",
    "a relative path": b"GET x HTTP/1.1\r\nhost: g\r\n\r\n",
    "bytes beyond ASCII": b"GET /\xc3\xa4 HTTP/1.1\r\nhost: g\r\n\r\n",
    "NUL in the target": b"GET /a\0b HTTP/1.1\r\nhost: g\r\n\r\n",
    "a lower-case method": b"post /x HTTP/1.1\r\nhost: g\r\n\r\n",
    "an unknown method": b"FETCH /x HTTP/1.1\r\nhost: g\r\n\r\n",
    "HTTP/0.9": b"GET /x\r\n\r\n",
    "HTTP/0.9 with its version": b"GET /x HTTP/0.9\r\nhost: g\r\n\r\n",
    "HTTP/1.2": b"GET /x HTTP/1.2\r\nhost: g\r\n\r\n",
    "HTTP/2.0": b"GET /x HTTP/2.0\r\nhost: g\r\n\r\n",
    "another protocol": b"GET /x HTCPCP/1.0\r\nhost: g\r\n\r\n",
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    "TLS's hello": bytes.fromhex("16030100c8010000c40303") + bytes(range(256)),
    "nonsense": b"\x01\x02\x03",
    "chunks in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0") + chunk(b"{}") + LAST_CHUNK,
}
TOO_LARGE = {
    "a long header": HEAD + b"x: %b\r\n\r\n" % (b"y" * MAX_HEAD_BYTES),
    "a header without an end": HEAD + b"x: %b" % (b"y" * 1_000_000),
    "a long name": HEAD + b"%b" % (b"y" * 1_000_000),
    "a long target": b"GET /%b HTTP/1.1\r\nhost: g\r\n\r\n" % (b"y" * MAX_HEAD_BYTES),
    "a target without an end": b"GET /%b" % (b"y" * 1_000_000),
    "many headers": HEAD + b"x: y\r\n" * MAX_HEADER_LINES + b"\r\n",
    "headers without an end": HEAD + b"x: y\r\n" * 200_000,
    "a long request id": HEAD + b"x-request-id: %b\r\n\r\n" % (b"y" * 100_000),
}
VAIN = {
    "an extension without an end": CHUNKED + b"2;a=%b" % (b"y" * 1_000_000),
    "trailers without an end": CHUNKED + chunk(b"{}") + b"0\r\n" + b"x: y\r\n" * 200_000,
}
REFUSED = {
    **{name: HEAD + lines + b"\r\n" + BODY for name, lines in LENGTHS.items()},
    **{name: CHUNKED + chunks for name, chunks in CHUNKS.items()},
    **HEADS,
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_no_request_is_refused(raw: bytes) -> None:
    """400 in OpenAI's shape, and nothing that follows on the connection is a request."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        got = await client.ask(raw + get("/smuggled"))
        assert (got.status, got.complete, got.value("connection")) == (400, True, b"close")
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert await client.read_to_end() == b""
        assert not handler.served
        assert len(handler.refused) + len(handler.unread) == 1


@pytest.mark.parametrize("raw", TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_what_is_too_much_is_refused(raw: bytes) -> None:
    """431, which the client can read though it is still sending."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        got = await client.ask(raw)
        assert (got.status, got.complete, got.value("connection")) == (431, True, b"close")
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert not handler.served


@pytest.mark.parametrize("raw", VAIN.values(), ids=VAIN.keys())
async def test_what_comes_beside_a_body_is_bounded(raw: bytes) -> None:
    """Nobody needs it, so there is no use in waiting for its end."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        got = await client.ask(raw)
        assert (got.status, got.complete, got.value("connection")) == (400, True, b"close")
        assert handler.refused[0][0] is handler.begun[0]


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"GET http://other/x?y HTTP/1.1\r\nhost: g\r\n\r\n", "/x"),
        (b"OPTIONS * HTTP/1.1\r\nhost: g\r\n\r\n", "*"),
        (b"\r\nGET /x HTTP/1.1\r\nhost: g\r\n\r\n", "/x"),
        (b"GET /x HTTP/1.0\r\n\r\n", "/x"),
        (b"GET /%2e%2e//x;y HTTP/1.1\r\nhost: g\r\n\r\n", "/%2e%2e//x;y"),
        (b"GET /x HTTP/1.1\r\nhost: g\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", "/x"),
        (HEAD + b"content-length: 0\r\n\r\n", "/x"),
        (HEAD + b"\r\n", "/x"),
    ],
)
async def test_what_is_unusual_and_right_passes(raw: bytes, path: str) -> None:
    """With its path as it was written, and without a body."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        assert (await client.ask(raw)).status == 200
        assert (handler.served[0].path, handler.served[0].body) == (path, b"")


async def test_a_head_at_its_limits_passes() -> None:
    """In one read or in many."""
    handler = StandInHandler()
    lines = b"x: y\r\n" * (MAX_HEADER_LINES - 2)
    lines += b"x: %b\r\n" % (b"y" * (MAX_HEAD_BYTES - len(b"/x" + b"host: g\r\n" + lines + b"x: \r\n")))
    async with serving(handler) as server, RawClient(server.port) as client:
        for pieces in ([HEAD + lines + b"\r\n"], [HEAD, lines[:100], lines[100:], b"\r\n"]):
            await client.send(*pieces)
            assert (await client.answer()).status == 200


async def test_names_keep_their_case_and_order() -> None:
    """As they came, twice if they came twice."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.ask(post(BODY, headers=b"X-MiXeD: 1\r\nCookie: a\r\ncookie:  b \r\n"))
        request = handler.served[0]
        assert request.headers[1:-1] == [(b"X-MiXeD", b"1"), (b"Cookie", b"a"), (b"cookie", b"b ")]


@pytest.mark.parametrize("pieces", [1, 4])
async def test_an_offer_to_upgrade_is_ignored_and_the_body_read(pieces: int) -> None:
    """As Java's HTTP client sends it with its first request; the connection goes on in HTTP/1.1."""
    handler = StandInHandler()
    chunked = HEAD + b"transfer-encoding: chunked\r\n" + H2C + b"\r\n" + chunk(BODY) + LAST_CHUNK
    async with serving(handler) as server, RawClient(server.port) as client:
        for request in (post(BODY, headers=H2C), chunked, post(BODY)):
            size = -(-len(request) // pieces)
            for at in range(0, len(request), size):
                await client.send(request[at : at + size])
                await asyncio.sleep(0)
            assert (await client.answer()).body == BODY
        assert (await client.ask(get("/y", headers=H2C))).body == b"/y"
        await client.send((post(BODY, headers=H2C) + get("/z", headers=H2C)) * 3)
        assert (await client.read_until(b"/z")).count(b"HTTP/1.1 200 OK") == 2
        close = H2C.replace(b"Connection: Upgrade", b"Connection: close, Upgrade")
        await client.send(post(BODY, headers=close) + get("/smuggled"))
        assert b"/smuggled" not in await client.read_to_end()


async def test_trailers_are_dropped() -> None:
    """Nothing is known about them when the request goes on."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        trailers = b"0\r\nx-after: 1\r\nhost: other\r\n\r\n"
        assert (await client.ask(CHUNKED + chunk(BODY) + trailers)).body == BODY
        assert handler.served[0].header(b"x-after") == b""
        assert (await client.ask(post(BODY))).status == 200


# Without a socket


class Nowhere:
    """A connection that nothing is written to."""

    writing_paused = False
    transport = asyncio.Transport()
    outbox = ClosedOutbox()

    def answered(self, *, close: bool) -> None: ...

    def cut(self, *, reset: bool) -> None: ...


def read(pieces: Sequence[bytes], *, max_body_bytes: int = 100_000) -> RequestReader:
    reader = RequestReader(Nowhere(), max_body_bytes=max_body_bytes)
    for piece in pieces:
        if reader.fault is None:
            reader.feed(piece)
    return reader


def essence(requests: Sequence[ClientRequest]) -> list[object]:
    return [(r.method, r.target, r.headers, r.declared_bytes, r.complete and r.body) for r in requests]


def split(raw: bytes, cuts: Sequence[int]) -> list[bytes]:
    ends = sorted({cut % (len(raw) + 1) for cut in cuts} | {0, len(raw)})
    return [raw[start:end] for start, end in pairwise(ends)]


REQUESTS = [
    post(BODY),
    post(b""),
    post(BODY, headers=b"x:\r\ny: \r\nempty:\r\n"),
    post(BODY, headers=H2C),
    get("/v1/models?a=b", headers=b"upgrade: websocket\r\nconnection: upgrade\r\n"),
    CHUNKED + chunk(b"a") + chunk(b"b" * 300) + b'1;x="y;z"\r\nc\r\n' + LAST_CHUNK,
    CHUNKED + chunk(BODY) + b"0\r\nx: y\r\n\r\n",
    CHUNKED + LAST_CHUNK,
    b"GET /x HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
]


@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4),
    st.one_of(st.lists(st.integers(0, 10_000), max_size=20), st.just(range(10_000))),
)
def test_it_does_not_matter_how_bytes_arrive(requests: list[bytes], cuts: Sequence[int]) -> None:
    """The same requests, whole or byte by byte."""
    raw = b"".join(requests)
    whole, in_pieces = read([raw]), read(split(raw, cuts))
    assert whole.fault is in_pieces.fault is None
    assert essence(whole.waiting) == essence(in_pieces.waiting)
    assert len(whole.waiting) == len(requests)
    assert not in_pieces.incomplete
    assert not in_pieces.in_head


@settings(max_examples=300)
@given(st.sampled_from(sorted(REFUSED)), st.lists(st.integers(0, 10_000), max_size=20))
def test_what_is_refused_is_refused_however_it_arrives(name: str, cuts: Sequence[int]) -> None:
    """No split makes a request of it."""
    raw = REFUSED[name] + get("/smuggled")
    reader = read(split(raw, cuts))
    assert reader.fault is not None
    assert not [request for request in reader.waiting if request.complete]


FRAGMENTS = [
    *REQUESTS,
    *REFUSED.values(),
    HEAD,
    CHUNKED,
    H2C,
    b"\r\n",
    b"0\r\n\r\n",
    b"5\r\n",
    b"content-length: 5\r\n\r\n",
    b"\0",
]


@settings(max_examples=500)
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(FRAGMENTS)), max_size=30))
def test_no_bytes_break_it_or_make_it_grow(pieces: list[bytes]) -> None:
    """A fault is always one of ours; what is gathered stays within its bounds."""
    reader = read(pieces, max_body_bytes=1000)
    assert reader.fault is None or reader.fault.status in (400, 413, 431)
    assert len(reader.waiting) <= MAX_PIPELINED
    assert sum(len(request.body) for request in reader.waiting) <= 1000


def test_single_bytes_of_a_body_take_no_more_room_than_they_must() -> None:
    """A chunk for each of them."""
    reader = read([CHUNKED, *[chunk(b"x") * 1000] * 50, LAST_CHUNK])
    assert reader.waiting[0].body == b"x" * 50_000


def test_a_closed_reader_holds_nothing() -> None:
    """Not even what was waiting."""
    reader = read([post(BODY) * 3])
    reader.close()
    assert not reader.waiting
