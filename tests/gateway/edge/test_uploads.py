"""Bodies on their way in: what all of them together may take."""

from __future__ import annotations

import json

import pytest

from gateway.edge.client_request import ClientRequest
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import StandInHandler, echo, hold, serving
from tests.fakes.waiting import eventually

CHUNKED = b"POST /x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_uploads_are_bounded_together() -> None:
    """Who comes when there is no room is told to come back; the others go on, and what comes in one piece passes."""
    handler = StandInHandler()
    async with (
        serving(handler, max_uploads_bytes=1000) as server,
        RawClient(server.port) as first,
        RawClient(server.port) as second,
        RawClient(server.port) as small,
    ):
        await first.send(CHUNKED, chunk(b"x" * 700))
        await eventually(lambda: server.upload_bytes == 700)
        await second.send(CHUNKED)
        await eventually(lambda: len(handler.begun) == 2)
        await second.send(chunk(b"y" * 301))
        got = await second.answer()
        assert (got.status, got.value("retry-after"), got.value("connection")) == (503, b"1", b"close")
        assert json.loads(got.body)["error"]["code"] == "uploads_full"
        assert handler.refused[0][0] is handler.begun[1]
        assert server.upload_bytes == 700  # what was refused is not kept, though its connection is still open
        assert (await small.ask(post(b"z" * 900))).status == 200
        assert (await first.ask(chunk(b"x" * 300) + LAST_CHUNK)).body == b"x" * 1000
        assert server.upload_bytes == 0
        await first.send(post(b"w" * 1000)[:-1])
        await eventually(lambda: server.upload_bytes == 999)
        first.reset()
        await eventually(lambda: server.upload_bytes == 0)


async def test_a_body_that_will_find_no_room_is_refused_before_it_comes() -> None:
    """Nobody sends it in vain; one that will find room is asked for."""
    handler = StandInHandler()
    head = b"POST /x HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    async with (
        serving(handler, max_uploads_bytes=1000) as server,
        RawClient(server.port) as first,
        RawClient(server.port) as second,
        RawClient(server.port) as third,
    ):
        await first.send(post(b"x" * 1000)[:-600])
        await eventually(lambda: server.upload_bytes == 400)
        assert (await second.ask(head % 601)).status == 503
        await third.send(head % 600)
        assert (await third.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")


async def test_what_waits_behind_another_counts_too() -> None:
    """All that came whole is answered; then the connection ends, in our words."""
    handler = StandInHandler(hold)
    async with serving(handler, max_uploads_bytes=1000) as server, RawClient(server.port) as client:
        await client.send(get("/first"))
        await eventually(lambda: handler.served)
        for number in (1, 2, 3):
            await client.send(post(b"x" * 400))
            await eventually(lambda size=400 * number: server.upload_bytes == size)  # type: ignore[misc]
        await client.send(post(b"never read"))
        handler.answers = echo
        echo(handler.served[0])
        raw = await client.read_to_end()
        assert raw.count(b"HTTP/1.1 200 OK") == 4
        assert raw.count(b"HTTP/1.1 503 ") == raw.count(b"retry-after: 1\r\n") == 1
        assert [error.code for error in handler.unread] == ["uploads_full"]
        assert server.upload_bytes == 0


async def test_a_body_that_began_behind_another_is_refused_in_its_turn() -> None:
    """The answer before it is not spoilt."""
    handler = StandInHandler(hold)
    async with serving(handler, max_uploads_bytes=1000) as server, RawClient(server.port) as client:
        await client.send(get("/first"))
        await eventually(lambda: handler.served)
        await client.send(CHUNKED, chunk(b"x" * 1001))
        await eventually(lambda: server.upload_bytes == 1001)
        echo(handler.served[0])
        raw = await client.read_to_end()
        assert raw.count(b"HTTP/1.1 200 OK") == raw.count(b"HTTP/1.1 503 ") == 1
        assert [request.path for request, _ in handler.refused] == ["/x"]


@pytest.mark.parametrize(
    "framed",
    [
        post(b"x" * 101, path="/small"),
        post(b"x" * 101, path="/small")[:-101],
        CHUNKED.replace(b"/x", b"/small") + chunk(b"x" * 60),
    ],
)
async def test_the_handler_may_want_less_of_a_body(framed: bytes) -> None:
    """Of a request that has no use for it. It is refused as soon as it is known to be larger, and others are not."""

    class Sparing(StandInHandler):
        def begin(self, request: ClientRequest) -> None:
            super().begin(request)
            if request.path == "/small":
                request.limit_body(100)

    handler = Sparing()
    async with serving(handler) as server, RawClient(server.port) as client:
        assert (await client.ask(post(b"x" * 100, path="/small"))).status == 200
        assert (await client.ask(post(b"x" * 1000))).status == 200
        await client.send(framed)
        await eventually(lambda: len(handler.begun) == 3)
        if framed.startswith(CHUNKED[:5]) and b"chunked" in framed:
            await client.send(chunk(b"x" * 41))
        got = await client.answer()
        assert (got.status, got.complete) == (413, True)
        assert len(handler.served) == 2
