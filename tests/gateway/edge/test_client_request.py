from __future__ import annotations

import pytest

from gateway.edge.client_request import ClientRequest
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import StandInHandler, serving

BODY = b'{"prompt":"hello"}'
CHUNKED = b"POST /x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(BODY) + LAST_CHUNK


async def asked(raw: bytes) -> ClientRequest:
    """What the handler sees of a request."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.ask(raw)
    return handler.served[0]


async def test_what_was_asked() -> None:
    """As the client wrote it."""
    request = await asked(post(BODY, path="/v1/%41?b=/c%20", headers=b"X-A: 1\r\nx-a: 2\r\nX-Empty:\r\n"))
    assert (request.method, request.target, request.path) == ("POST", b"/v1/%41?b=/c%20", "/v1/%41")
    assert request.headers == [
        (b"host", b"gateway"),
        (b"X-A", b"1"),
        (b"x-a", b"2"),
        (b"X-Empty", b""),
        (b"content-length", b"18"),
    ]
    assert (request.body, request.complete) == (BODY, True)


async def test_a_header_by_its_name() -> None:
    """Its first value; nothing if it is not there."""
    request = await asked(get("/x", headers=b"X-A: 1\r\nx-a: 2\r\nX-Empty:\r\n"))
    assert [request.header(name) for name in (b"x-a", b"x-empty", b"x-b")] == [b"1", b"", b""]


@pytest.mark.parametrize(
    ("raw", "declared"),
    [
        (post(BODY), 18),
        (post(b""), 0),
        (post(BODY).replace(b": 18", b":  0018 "), 18),
        (CHUNKED, None),
        (get("/x"), None),
    ],
)
async def test_the_declared_length(raw: bytes, declared: int | None) -> None:
    """Of chunks, and of no body, none."""
    assert (await asked(raw)).declared_bytes == declared


@pytest.mark.parametrize(
    ("raw", "expects"),
    [
        (post(BODY, headers=b"Expect: 100-Continue\r\n"), True),
        (post(BODY, headers=b"Expect: 200-ok\r\n"), False),
        (post(BODY, headers=b"Expect: 100-continue\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (post(BODY), False),
    ],
)
async def test_who_waits_to_be_told_to_go_on(raw: bytes, expects: bool) -> None:
    """HTTP/1.1 clients that say so."""
    assert (await asked(raw)).expects_continue == expects
