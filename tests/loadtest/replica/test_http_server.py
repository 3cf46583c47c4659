"""The HTTP server under the replica: bytes, framing, and connections that end."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest

from loadtest.replica import http_server
from loadtest.replica.http_server import HttpServer, ReceivedRequest, Responder
from tests.fakes.raw_client import RawClient, get, post


class Echo:
    """Answers with the body it got, and remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []

    async def handle(self, request: ReceivedRequest, responder: Responder) -> None:
        self.requests.append(request)
        if request.path == "/stream":
            await responder.head(200, [])
            await responder.write(request.body)
            await responder.end()
        else:
            await responder.send(200, [("content-type", "text/plain")], request.body)


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def server(echo: Echo) -> AsyncIterator[HttpServer]:
    server = HttpServer(echo.handle)
    await server.start()
    yield server
    await server.stop()


async def test_keeps_what_was_sent(server: HttpServer, echo: Echo) -> None:
    """Names as written, in order, doubled ones too; the raw bytes; the target with its query."""
    sent = post(b"\x00body", path="/x?y=1", headers=b"X-Odd: A\r\nx-odd: b\r\n")
    async with RawClient(server.port) as client:
        await client.send(sent)
        await client.read_until(b"\x00body")

    (request,) = echo.requests
    assert request.raw == sent
    assert request.headers[1:3] == ((b"X-Odd", b"A"), (b"x-odd", b"b"))
    assert (request.method, request.path, request.target, request.body) == ("POST", "/x", "/x?y=1", b"\x00body")
    assert (request.header("x-ODD"), request.header("none")) == ("A", "")


async def test_answers_several_requests_on_one_connection(server: HttpServer, echo: Echo) -> None:
    """One after another and pipelined; chunked requests too."""
    chunked = b"POST /stream HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    async with RawClient(server.port) as client:
        await client.send(post(b"one") + post(b"two"), chunked)
        await client.read_until(b"one")
        await client.read_until(b"two")
        assert b"5\r\nabcde\r\n0\r\n\r\n" in await client.read_until(b"0\r\n\r\n")

    assert [request.body for request in echo.requests] == [b"one", b"two", b"abcde"]


async def test_a_head_request_gets_no_body(server: HttpServer) -> None:
    """And the next answer starts right after the head."""
    async with RawClient(server.port) as client:
        await client.send(get("/", method="HEAD"), get("/"))
        await client.read_until(b"\r\n\r\n")
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")


async def test_closes_when_asked(server: HttpServer) -> None:
    """``connection: close`` is answered with itself and a FIN."""
    async with RawClient(server.port) as client:
        await client.send(post(b"x", headers=b"connection: close\r\n"))
        answer = await client.read_to_end()

    assert b"connection: close" in answer
    assert answer.endswith(b"x")


async def test_answers_a_client_that_waits_to_be_told_to_go_on(server: HttpServer) -> None:
    """``expect: 100-continue`` gets an interim answer before the body is sent."""
    head, body = post(b"late", headers=b"expect: 100-continue\r\n").split(b"\r\n\r\n")
    async with RawClient(server.port) as client:
        await client.send(head + b"\r\n\r\n")
        assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert b"200 OK" in await client.read_until(b"late")


async def test_what_is_not_http_is_a_400(server: HttpServer) -> None:
    """And the connection ends."""
    async with RawClient(server.port) as client:
        await client.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 400")


async def test_idle_connections_close(echo: Echo) -> None:
    """As uvicorn's do, only sooner here."""
    server = HttpServer(echo.handle, keep_alive_s=0.01)
    await server.start()
    async with RawClient(server.port) as client:
        await client.send(post(b"x"))
        assert (await client.read_to_end()).endswith(b"x")
    await server.stop()
    assert http_server.KEEP_ALIVE_S == 5.0


async def test_stopping_resets_open_connections_and_refuses_new_ones(server: HttpServer) -> None:
    """Until it starts again, on the same port."""
    port = server.port
    async with RawClient(port) as client:
        await client.send(post(b"x"))
        await client.read_until(b"x")
        await server.stop()
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()

    await server.start()
    assert server.port == port
    socket.create_connection(("127.0.0.1", port)).close()
