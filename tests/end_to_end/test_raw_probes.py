"""Requests that two servers might read differently, through a whole gateway: refused, or what was sent and no more."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.at_rest import at_rest
from tests.end_to_end.street import Street, street
from tests.fakes.raw_client import RawClient, get, post

BODY = b'{"model": "real", "prompt": "x"}'
LINE = b"POST /v1/completions HTTP/1.1\r\n"
HOST = b"host: gateway\r\n"
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
HIDDEN = b"POST /v1/embeddings HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
UPLOADS_TO = "/v1/audio/transcriptions"
FORM = b"content-type: multipart/form-data; boundary=cut\r\n"
UPLOAD = b'--cut\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n\r\n\r\n%b\r\n--cut--\r\n' % HIDDEN

#: What is refused, with which status. Nobody else hears of it, nor of what follows it.
REFUSED: dict[str, tuple[bytes, int]] = {
    "two lengths": (LINE + HOST + LENGTH + b"content-length: 0\r\n\r\n" + BODY, 400),
    "two equal lengths": (LINE + HOST + LENGTH + LENGTH + b"\r\n" + BODY, 400),
    "a list of lengths": (LINE + HOST + b"content-length: 32, 32\r\n\r\n" + BODY, 400),
    "a signed length": (LINE + HOST + b"content-length: +32\r\n\r\n" + BODY, 400),
    "a negative length": (LINE + HOST + b"content-length: -1\r\n\r\n", 400),
    "a hexadecimal length": (LINE + HOST + b"content-length: 0x20\r\n\r\n" + BODY, 400),
    "an endless length": (LINE + HOST + b"content-length: 99999999999999999999999\r\n\r\n" + BODY, 400),
    "length with chunks": (LINE + HOST + LENGTH + CHUNKED + b"\r\n" + CHUNKS, 400),
    "chunks with length": (LINE + HOST + CHUNKED + LENGTH + b"\r\n" + CHUNKS, 400),
    "chunked twice": (LINE + HOST + CHUNKED + CHUNKED + b"\r\n" + CHUNKS, 400),
    "chunked, identity": (LINE + HOST + b"transfer-encoding: chunked, identity\r\n\r\n" + CHUNKS, 400),
    "gzip, chunked": (LINE + HOST + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS, 400),
    "xchunked": (LINE + HOST + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS, 400),
    "chunked with a vertical tab": (LINE + HOST + b"transfer-encoding: \x0bchunked\r\n\r\n" + CHUNKS, 400),
    "chunked of HTTP/1.0": (LINE.replace(b"1.1", b"1.0") + HOST + CHUNKED + b"\r\n" + CHUNKS, 400),
    "space before a colon": (LINE + HOST + b"content-length : 32\r\n\r\n" + BODY, 400),
    "a folded line": (LINE + HOST + b"x-a: b\r\n c\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "bare LF in the head": (LINE + HOST + b"x-a: b\ntransfer-encoding: chunked\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "bare LF at its end": (LINE + HOST + LENGTH + b"\n" + BODY, 400),
    "bare CR in a value": (LINE + HOST + b"x-a: b\rc\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "NUL in a value": (LINE + HOST + b"x-a: b\0c\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "NUL in a name": (LINE + HOST + b"x\0a: b\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "NUL in the target": (b"POST /v1/comple\0tions HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, 400),
    "no host": (LINE + LENGTH + b"\r\n" + BODY, 400),
    "two hosts": (LINE + HOST + b"host: other\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "a host with a space": (LINE + b"host: a b\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "HTTP/0.9": (b"POST /v1/completions\r\n\r\n", 400),
    "HTTP/2.0": (LINE.replace(b"1.1", b"2.0") + HOST + LENGTH + b"\r\n" + BODY, 400),
    "HTTP/2's preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "CONNECT": (b"CONNECT 10.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, 400),
    "chunk size with a sign": (LINE + HOST + CHUNKED + b"\r\n+20\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "chunk size with 0x": (LINE + HOST + CHUNKED + b"\r\n0x20\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "chunk size that overflows": (LINE + HOST + CHUNKED + b"\r\nfffffffffffffffff\r\n" + BODY, 400),
    "chunk longer than it says": (LINE + HOST + CHUNKED + b"\r\n5\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "chunk that ends with LF": (LINE + HOST + CHUNKED + b"\r\n20\r\n" + BODY + b"\n0\r\n\r\n", 400),
    "chunk size that ends with LF": (LINE + HOST + CHUNKED + b"\r\n20\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "one line of 70 kB": (LINE + HOST + b"x-a: " + b"a" * 70_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, 431),
    "70 kB of lines": (LINE + HOST + b"x-a: aaaaaaaaaa\r\n" * 4_200 + LENGTH + b"\r\n" + BODY, 431),
    "a target of 70 kB": (b"POST /v1/completions?" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
    "an endless head": (LINE + HOST + b"x-a: " + b"a" * 200_000, 431),
}
#: What passes, as how many requests to which paths.
PASSES: dict[str, tuple[bytes, list[str]]] = {
    "a request within a body": (
        post(UPLOAD, path=UPLOADS_TO, headers=FORM),
        [UPLOADS_TO],
    ),
    "a request within a chunk": (
        LINE.replace(b"/v1/completions", UPLOADS_TO.encode())
        + HOST
        + FORM
        + CHUNKED
        + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(UPLOAD), UPLOAD),
        [UPLOADS_TO],
    ),
    "a request after a body": (post(BODY) + HIDDEN, ["/v1/completions", "/v1/embeddings"]),
    "a request after a GET's body": (
        b"GET /v1/models HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN + post(BODY),
        ["/v1/completions"],
    ),
    "a request in trailers": (
        LINE + HOST + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"x-trailer: POST /v1/embeddings HTTP/1.1\r\n\r\n",
        ["/v1/completions"],
    ),
    "an offer of h2c with a body": (
        post(
            BODY, headers=b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
        ),
        ["/v1/completions"],
    ),
    "an absolute target": (
        post(BODY).replace(b"POST /", b"POST http://10.0.0.1:22/", 1),
        ["/v1/completions"],
    ),
    "chunk extensions": (
        LINE + HOST + CHUNKED + b"\r\n%x;a=b\r\n%b\r\n0;c\r\n\r\n" % (len(BODY), BODY),
        ["/v1/completions"],
    ),
    "chunked in capitals": (LINE + HOST + b"Transfer-Encoding: CHUNKED\r\n\r\n" + CHUNKS, ["/v1/completions"]),
}


def heard(built: Street) -> list[str]:
    """The paths that replicas were asked for, and each request as whole as it was sent."""
    requests = [request for engine in built.engines.values() for request in engine.requests]
    assert all(len(request.values("content-length")) == 1 for request in requests)
    assert not any(request.values("transfer-encoding") for request in requests)
    return sorted(request.line.decode().split()[1] for request in requests)


async def test_what_is_unclear_is_refused() -> None:
    """An error of OpenAI's shape, the connection is closed, and no replica hears of it or of what was hidden in it.

    Whatever came whole before it is answered first.
    """
    async with street(strategy="round_robin") as built:
        port = built.gateways[0].edge.port
        for name, (raw, status) in REFUSED.items():
            for before in (b"", get("/livez")):
                async with RawClient(port) as client:
                    await client.send(before + raw + HIDDEN)
                    answers = await client.read_to_end()
                if before:
                    first, _, answers = answers.partition(b'{"status":"ok"}')
                    assert first.startswith(b"HTTP/1.1 200 OK\r\n"), name
                head, _, body = answers.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 %d " % status), (name, answers)
                assert b"connection: close" in head, name
                assert json.loads(body)["error"]["type"] == "invalid_request_error", name
                assert heard(built) == [], name
        await at_rest(built.gateways[0])


@pytest.mark.parametrize("piece_bytes", [1_000_000, 1])
async def test_what_is_clear_passes_once(piece_bytes: int) -> None:
    """Wherever the network cuts it: the replicas see exactly the requests that were sent."""
    for name, (raw, paths) in PASSES.items():
        async with street(strategy="round_robin") as built, RawClient(built.gateways[0].edge.port) as client:
            sent = raw + get("/livez", headers=b"connection: close\r\n")
            await client.send(*(sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)))
            answers = await client.read_to_end()

            assert answers.endswith(b'{"status":"ok"}'), (name, answers)
            assert heard(built) == sorted(paths), name
