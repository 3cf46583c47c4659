"""One client's connection: whose turn it is, how long it may take, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.client_connection import ClientConnection
from gateway.edge.client_request import ClientRequest
from gateway.edge.request_reader import MAX_PIPELINED, RequestReader
from gateway.errors import Unauthorized
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, chunk
from tests.fakes.stand_in_handler import StandInHandler, echo, hold, serving
from tests.fakes.waiting import eventually

BODY = b'{"prompt":"hello"}'
CHUNKED = b"POST /x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
WAITS = b"Expect: 100-continue\r\n"


def begin_stream(request: ClientRequest) -> None:
    """A first piece, and no end."""
    request.answer.start(200, [(b"content-type", b"text/event-stream")], has_length=False)
    request.answer.send(b"data: 1\n\n", last=False)


# Turns


async def test_one_connection_carries_many_requests() -> None:
    """One after the other, each with its own body and answer."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        for n in range(5):
            assert (await client.ask(post(b"%d" % n))).body == b"%d" % n
        assert server.connections == 1


async def test_pipelined_requests_are_answered_in_order() -> None:
    """The handler sees the next one when the one before is answered, and not earlier."""
    handler = StandInHandler(hold)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(b"".join(post(b"body %d" % n) for n in range(5)))
        for n in range(5):
            await eventually(lambda n=n: len(handler.served) == n + 1)  # type: ignore[misc]
            assert len(handler.begun) == n + 1
            echo(handler.served[n])
        assert (await client.read_until(b"body 4")).count(b"HTTP/1.1 200 OK") == 5


async def test_too_many_pipelined_requests_are_refused_after_those_that_may_wait() -> None:
    """Nothing grows without bound behind a slow answer."""
    handler = StandInHandler(hold)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(BODY))
        await eventually(lambda: handler.served)
        await client.send(post(BODY) * (MAX_PIPELINED + 5))
        handler.answers = echo
        echo(handler.served[0])
        raw = await client.read_to_end()
        assert raw.count(b"HTTP/1.1 200 OK") == 1 + MAX_PIPELINED
        assert raw.count(b"HTTP/1.1 400 Bad Request") == 1
        assert [error.message for error in handler.unread] == ["Too many pipelined requests."]


async def test_pipelined_bodies_are_bounded_together() -> None:
    """By as much as one body may be."""
    handler = StandInHandler(hold, max_body_bytes=1000)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(b"x" * 900))
        await eventually(lambda: handler.served)
        await client.send(post(b"y" * 600), post(b"z" * 600))
        handler.answers = echo
        echo(handler.served[0])
        raw = await client.read_to_end()
        assert b"y" * 600 in raw
        assert b"zz" not in raw
        assert [error.message for _, error in handler.refused] == ["Too many pipelined requests."]


async def test_a_client_that_asks_and_asks_but_never_reads_is_not_served_on() -> None:
    """Answers would pile up without bound. When it reads, it gets all that it asked for."""
    answer = b"x" * 2_000_000
    handler = StandInHandler(lambda request: request.answer.respond(200, answer))
    async with serving(handler) as server, RawClient(server.port) as client, RawClient(server.port) as witness:
        await client.send(get("/x") * 15)
        await eventually(lambda: handler.served)
        await witness.ask(get("/y"))
        assert len([request for request in handler.served if request.path == "/x"]) < 15
        for _ in range(15):
            assert len((await client.answer_exactly()).body) == len(answer)


async def test_extra_bytes_after_a_body_are_no_second_request() -> None:
    """The answer is not spoilt; what follows is refused, and the connection ends."""
    handler = StandInHandler(hold)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(BODY) + b'{"more":1}' + post(BODY))
        await eventually(lambda: handler.served)
        echo(handler.served[0])
        first, _, second = (await client.read_to_end()).partition(BODY)
        assert first.startswith(b"HTTP/1.1 200 OK")
        assert second.startswith(b"HTTP/1.1 400 Bad Request")
        assert (len(handler.served), len(handler.unread)) == (1, 1)


@pytest.mark.parametrize("last", [b"connection: close\r\n", b"Connection: keep-alive, Close\r\n"])
async def test_nothing_follows_a_request_that_closes(last: bytes) -> None:
    """Not even a request."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(BODY, headers=last) + post(BODY))
        raw = await client.read_to_end()
        assert raw.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in raw
        assert len(handler.served) == 1


# Bodies


async def test_a_refusal_does_not_wait_for_the_body() -> None:
    """It can be read while the client is still sending, and then the connection ends."""
    handler = StandInHandler(refusals={"/x": Unauthorized("No key.")})
    async with serving(handler) as server, RawClient(server.port) as client:
        request = post(b"x" * 5_000_000, path="/x")
        await client.send(request[:1000])
        got = await client.answer()
        assert (got.status, got.complete, got.value("connection")) == (401, True, b"close")
        await client.send(request[1000:])  # no reset
        assert await client.read_to_end() == b""
        assert not handler.served


async def test_after_a_refusal_of_a_whole_request_the_connection_goes_on() -> None:
    """Nothing of it is left to be read."""
    handler = StandInHandler(refusals={"/x": Unauthorized("No key.")})
    async with serving(handler) as server, RawClient(server.port) as client:
        got = await client.ask(post(BODY, path="/x"))
        assert (got.status, got.values("connection")) == (401, [])
        assert (await client.ask(post(BODY))).status == 200


@pytest.mark.parametrize("sent", [b"content-length: 1001\r\n\r\n", b"content-length: 18446744073709551615\r\n\r\n"])
async def test_a_body_that_will_be_too_large_is_refused_before_it_comes(sent: bytes) -> None:
    """Nobody has to send a gigabyte to be told no."""
    handler = StandInHandler(max_body_bytes=1000)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(b"POST /x HTTP/1.1\r\nhost: g\r\n" + WAITS + sent)
        got = await client.answer()
        assert (got.status, got.value("connection")) == (413, b"close")
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("size", [1001, 3_000_000])
async def test_chunks_that_become_too_large_are_refused(size: int) -> None:
    """As soon as they are, and the client can read it though it goes on sending."""
    handler = StandInHandler(max_body_bytes=1000)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(CHUNKED, chunk(b"x" * size), LAST_CHUNK)
        got = await client.answer()
        assert (got.status, got.complete, got.value("connection")) == (413, True, b"close")
        assert await client.read_to_end() == b""
        assert [type(error).__name__ for _, error in handler.refused] == ["BodyTooLarge"]


@pytest.mark.parametrize("framed", [post(b"x" * 1000), CHUNKED + chunk(b"x" * 400) + chunk(b"x" * 600) + LAST_CHUNK])
async def test_a_body_at_the_limit_passes(framed: bytes) -> None:
    """The limit is the last size that is allowed."""
    async with serving(StandInHandler(max_body_bytes=1000)) as server, RawClient(server.port) as client:
        assert (await client.ask(framed)).body == b"x" * 1000


async def test_a_body_that_cannot_be_read_is_refused() -> None:
    """It belongs to a request that has begun, so that is what is refused."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(CHUNKED, chunk(BODY))
        await eventually(lambda: handler.begun)
        await client.send(b"zz\r\n")
        got = await client.answer()
        assert (got.status, got.value("connection")) == (400, b"close")
        assert handler.refused[0][0] is handler.begun[0]
        assert not handler.unread


# 100-continue


async def test_a_client_is_told_to_go_on_when_its_body_is_wanted() -> None:
    """And may not be told when the request is refused, nor when it did not wait."""
    handler = StandInHandler(refusals={"/x": Unauthorized("No key.")})
    async with serving(handler) as server:
        async with RawClient(server.port) as client:
            request = post(BODY, headers=WAITS)
            await client.send(request[: -len(BODY)])
            assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await client.ask(BODY)).body == BODY
            assert (await client.ask(request)).body == BODY
        async with RawClient(server.port) as client:
            await client.send(post(BODY, path="/x", headers=WAITS)[: -len(BODY)])
            assert (await client.read_to_end()).startswith(b"HTTP/1.1 401 ")
        async with RawClient(server.port) as client:
            await client.send(request.replace(b"HTTP/1.1", b"HTTP/1.0")[: -len(BODY)])
            await eventually(lambda: len(handler.begun) == 4)
            assert (await client.ask(BODY)).status == 200  # HTTP/1.0 knows no 100


# Time


async def test_a_client_that_stops_in_its_body_is_told_so() -> None:
    """408 in OpenAI's shape, and the connection ends."""
    handler = StandInHandler()
    async with serving(handler, upload_timeout_s=0.1) as server, RawClient(server.port) as client:
        await client.send(post(BODY)[:-1])
        got = await client.answer()
        assert (got.status, got.value("connection")) == (408, b"close")
        assert json.loads(got.body)["error"]["code"] == "request_timeout"
        assert await client.read_to_end() == b""
        assert handler.refused[0][0] is handler.begun[0]
        assert not handler.served


async def test_a_client_that_trickles_its_body_is_told_so() -> None:
    """A byte now and then is a pause: else it would hold what it has sent for as long as it likes."""
    handler = StandInHandler()
    async with serving(handler, upload_timeout_s=0.2) as server, RawClient(server.port) as client:
        await client.send(post(b"x" * 1_000_000)[:-100_000])

        def refused() -> bool:
            """Sends one more byte whenever it is asked."""
            client.writer.write(b"x")
            return bool(handler.refused)

        await eventually(refused)
        got = await client.answer()
        assert (got.status, got.value("connection")) == (408, b"close")
        assert server.upload_bytes == 0


async def test_a_large_body_may_take_its_time() -> None:
    """However long, as long as it comes."""
    handler = StandInHandler(lambda request: request.answer.respond(200, b"%d" % len(request.body)))
    async with (
        serving(handler, upload_timeout_s=0.5) as server,
        RawClient(server.port) as client,
        RawClient(server.port) as witness,
    ):
        head = b"POST /x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
        await client.send(head)
        await eventually(lambda: handler.begun)
        await witness.send(post(BODY)[:-1])
        sent = 0

        def time_has_passed() -> bool:
            nonlocal sent
            client.writer.write(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
            sent += 1000
            return bool(handler.refused)

        await eventually(time_has_passed)
        assert (await client.ask(b"0\r\n\r\n")).body == b"%d" % sent


@pytest.mark.parametrize("piece", [b"P", b"POST /x HTTP/1.1\r\nhost: g\r\n"])
async def test_a_head_must_come_in_time_as_a_whole(piece: bytes) -> None:
    """Whoever sends it line by line for ever gets no more time than others."""
    handler = StandInHandler()
    async with serving(handler, upload_timeout_s=0.1) as server, RawClient(server.port) as client:
        await client.send(piece)

        def refused() -> bool:
            """Sends one more line whenever it is asked, if it is sending lines."""
            client.writer.write(b"" if piece == b"P" else b"x: y\r\n")
            return bool(handler.unread)

        await eventually(refused)
        got = await client.answer()
        assert (got.status, got.value("connection")) == (408, b"close")
        assert json.loads(got.body)["error"]["code"] == "request_timeout"


async def test_our_own_slowness_is_not_the_clients() -> None:
    """While a request is answered, neither it nor what waits behind it runs out of time."""
    handler = StandInHandler(hold)
    async with serving(handler, upload_timeout_s=0.05) as server, RawClient(server.port) as client:
        slow, other = post(b"1"), post(b"2")
        await client.send(slow + other[:-1])
        await eventually(lambda: handler.served)
        async with RawClient(server.port) as witness:
            await witness.send(post(BODY)[:-1])
            assert (await witness.answer()).status == 408  # so much time has passed
        handler.answers = echo
        echo(handler.served[0])
        await client.send(other[-1:])
        assert (await client.read_until(b"\r\n\r\n2")).count(b"HTTP/1.1 200 OK") == 2


# The end


@pytest.mark.parametrize("answers", [hold, begin_stream])
@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset, RawClient.half_close])
@pytest.mark.parametrize("pipelined", [False, True])
async def test_a_client_that_leaves_is_noticed_at_once(
    answers: Callable[[ClientRequest], None], leave: Callable[[RawClient], None], pipelined: bool
) -> None:
    """By the request that runs, once; what waited behind it is never begun."""
    handler = StandInHandler(answers)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(BODY) * (2 if pipelined else 1))
        await eventually(lambda: handler.served)
        leave(client)
        await eventually(lambda: server.connections == 0)
        assert handler.gone == handler.begun == handler.served
        assert len(handler.gone) == 1
        assert handler.gone[0].answer.gone
        echo(handler.served[0])  # too late, and harmless


async def test_a_client_that_leaves_in_its_body_is_noticed() -> None:
    """It has begun, so it hears of it; it is never served."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(post(BODY)[:-1])
        await eventually(lambda: handler.begun)
        client.reset()
        await eventually(lambda: handler.gone)
        assert not handler.served


async def test_a_client_that_leaves_after_its_answer_disturbs_nobody() -> None:
    """There is nothing to stop any more."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.ask(post(BODY))
        client.close()
        await eventually(lambda: server.connections == 0)
        assert not handler.gone


def fault(request: ClientRequest) -> None:
    raise RuntimeError("a fault")


def late_fault(request: ClientRequest) -> None:
    begin_stream(request)
    raise RuntimeError("a fault")


async def test_a_fault_of_the_handler_costs_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    """500 in OpenAI's shape; it is logged, the connection ends, and others are served."""
    handler = StandInHandler(fault, refusals={"/begin": RuntimeError("a fault")})
    async with serving(handler) as server:
        for path in ("/serve", "/begin"):
            async with RawClient(server.port) as client:
                got = await client.ask(post(BODY, path=path))
                assert (got.status, got.value("connection")) == (500, b"close")
                assert json.loads(got.body)["error"]["code"] == "gateway_fault"
        handler.answers = late_fault
        async with RawClient(server.port) as client:
            got = await client.ask(post(BODY))
            assert (got.status, got.complete) == (200, False)
        handler.answers = echo
        async with RawClient(server.port) as client:
            assert (await client.ask(post(BODY))).status == 200
    assert caplog.text.count("a request failed in the gateway itself") == 3


async def test_a_fault_in_refusing_costs_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    """However it comes about that nothing can be said."""

    class Faulty(StandInHandler):
        def refuse(self, request: ClientRequest, error: Exception) -> None:
            raise RuntimeError("a fault")

        def unreadable(self, error: Exception, /) -> None:
            raise RuntimeError("a fault")

    handler = Faulty(refusals={"/x": Unauthorized("No key.")})
    async with serving(handler) as server:
        async with RawClient(server.port) as client:
            assert (await client.ask(get("/x"))).status == 500
        async with RawClient(server.port) as client:
            assert (await client.ask(b"nonsense\r\n\r\n")).status == 400
        async with RawClient(server.port) as client:
            assert (await client.ask(get("/y"))).status == 200


async def test_a_fault_at_the_end_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The client has left, and what should have noticed did not."""

    def waits_badly(request: ClientRequest) -> None:
        request.answer.on_gone = lambda: fault(request)

    handler = StandInHandler(waits_badly)
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.send(get("/x"))
        await eventually(lambda: handler.served)
        client.reset()
        await eventually(lambda: server.connections == 0)
    assert "a request failed at its end" in caplog.text


async def test_a_client_that_does_not_close_is_closed() -> None:
    """After an answer that says so, it may linger for a while only."""

    def last_answer(request: ClientRequest) -> None:
        request.answer.end_connection()
        echo(request)

    handler = StandInHandler(last_answer)
    async with serving(handler, upload_timeout_s=0.1) as server, RawClient(server.port) as client:
        assert (await client.ask(get("/x"))).value("connection") == b"close"
        assert await client.read_to_end() == b""
        await eventually(lambda: server.connections == 0)


async def test_nothing_is_left_of_a_connection_that_has_ended() -> None:
    """Not even for the garbage collector, which would find it late: neither it, nor its requests."""
    handler = StandInHandler(max_body_bytes=1000)
    gc.collect()
    gc.disable()
    try:
        async with serving(handler) as server:
            for leave in (RawClient.close, RawClient.reset):
                async with RawClient(server.port) as client:
                    await client.ask(post(BODY))
                    await client.ask(post(BODY, headers=b"upgrade: h2c\r\nconnection: upgrade\r\n"))
                    await client.send(post(BODY)[:-1])
                    await eventually(lambda: len(handler.begun) > len(handler.served))
                    handler.begun.clear()
                    handler.served.clear()
                    leave(client)
                await eventually(lambda: server.connections == 0)
            for unreadable in (CHUNKED + b"zz", CHUNKED + chunk(b"x" * 1001), b"GET /x HTTP/1.1\r\n\r\n"):
                async with RawClient(server.port) as client:
                    await client.send(unreadable)
                    await client.read_to_end()
                    client.close()
                    await eventually(lambda: server.connections == 0)
            assert (len(handler.refused), len(handler.unread)) == (2, 1)
            for kept in (handler.gone, handler.begun, handler.refused):
                kept.clear()
            await asyncio.sleep(0)
            kinds = (ClientConnection, RequestReader, ClientRequest)
            assert not [found for found in gc.get_objects() if isinstance(found, kinds)]
    finally:
        gc.enable()


async def test_an_idle_connection_holds_no_request() -> None:
    """Its body may have been large."""
    handler = StandInHandler()
    async with serving(handler) as server, RawClient(server.port) as client:
        await client.ask(post(b"x" * 1_000_000))
        handler.begun.clear()
        handler.served.clear()
        gc.collect()
        assert not [found for found in gc.get_objects() if isinstance(found, ClientRequest)]


PIECES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([post(BODY), post(BODY)[:-1], get("/held"), get("/x"), CHUNKED, chunk(BODY), LAST_CHUNK, b"\r\n"]),
)


@settings(max_examples=60)
@given(st.lists(PIECES, max_size=12), st.sampled_from([RawClient.close, RawClient.reset, RawClient.half_close]))
def test_no_bytes_of_a_client_break_the_server(pieces: list[bytes], leave: Callable[[RawClient], None]) -> None:
    """Whatever one client sent, and however it left: each of its requests has ended, and another client is served."""

    def answers(request: ClientRequest) -> None:
        (hold if request.path == "/held" else echo)(request)

    async def scenario() -> None:
        handler = StandInHandler(answers, max_body_bytes=1000)
        async with serving(handler) as server:
            async with RawClient(server.port) as client:
                with contextlib.suppress(ConnectionError):
                    for piece in pieces:
                        await client.send(piece)
                        await asyncio.sleep(0)
                    leave(client)
            await eventually(lambda: server.connections == 0)
            assert all(request.answer.ended for request in handler.begun)
            assert handler.gone == [request for request in handler.begun if request.answer.gone]
            async with RawClient(server.port) as witness:
                assert (await witness.ask(get("/x"))).status == 200

    asyncio.run(scenario())
