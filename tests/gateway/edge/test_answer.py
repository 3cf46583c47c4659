"""How an answer is framed for the client at hand, and how a break looks to it."""

from __future__ import annotations

import pytest

from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, answer, chunk, plays, plays_and_closes
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello","stream":true}'
EVENT = b'data: {"choices":[{"text":"hi"}]}\n\n'


async def test_the_head_leaves_with_the_first_bytes() -> None:
    """Status, headers, then frames: one write, in this order."""
    async with (
        ScriptedServer(plays(SSE_HEAD + chunk(EVENT) + LAST_CHUNK)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))
        raw = await client.read_until(LAST_CHUNK)
        head, _, body = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
        assert head.endswith(b"\r\ntransfer-encoding: chunked")
        assert body == chunk(EVENT) + LAST_CHUNK


async def test_a_reason_of_the_replicas_own_is_kept() -> None:
    """And an unknown status passes without one."""
    async with (
        ScriptedServer(plays(answer(b"{}", status="200 Fine")), plays(answer(b"{}", status="299 "))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))
        assert (await client.read_until(b"{}")).startswith(b"HTTP/1.1 200 Fine\r\n")
        await client.send(post(BODY))
        assert (await client.read_until(b"{}")).startswith(b"HTTP/1.1 299 \r\n")


async def test_a_client_that_wants_to_close_is_closed() -> None:
    """After its answer, which says so."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY, headers=b"connection: close\r\n"))
        assert (got.complete, got.value("connection")) == (True, b"close")
        assert await client.read_to_end() == b""


async def test_the_answer_to_head_is_a_head() -> None:
    """It states the length that a GET would have, and the connection goes on."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        head = await client.ask(get("/health", method="HEAD"), head_only=True)
        got = await client.ask(get("/health"))
        assert head.values("content-length") == got.values("content-length")
        assert got.body == b'{"status":"ok"}'


async def test_old_clients_get_a_body_without_frames() -> None:
    """HTTP/1.0 knows no chunks: the body ends with the connection."""
    async with (
        ScriptedServer(plays(SSE_HEAD, chunk(EVENT), chunk(EVENT), LAST_CHUNK)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        head, _, body = (await client.read_to_end()).partition(b"\r\n\r\n")
        assert body == EVENT * 2
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head


async def test_old_clients_see_a_break_as_a_reset() -> None:
    """An orderly end would pass for the end of the body."""
    half = plays_and_closes(
        b"HTTP/1.1 200 OK\r\ncontent-type: x/y\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"ha")
    )
    async with ScriptedServer(half) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()
