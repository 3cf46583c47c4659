"""Pages are read with distrust: what cannot be read is unknown, never an error, and never a fault of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.load_report import ServerReport
from gateway.fleet.server_pages import ServerPages
from tests.fakes.scripted_server import ScriptedServer, Wire, answer, plays, plays_and_closes


@asynccontextmanager
async def _pages(script: Callable[[Wire], Awaitable[None]], timeout_s: float = 30.0) -> AsyncIterator[ServerPages]:
    async with ScriptedServer(script) as server, httpx.AsyncClient(trust_env=False) as http:
        yield ServerPages(http, "a", server.origin, timeout_s)


ODD: dict[str, bytes] = {
    "nothing": answer(b""),
    "no json": answer(b"<html>"),
    "half a character": answer(b'{"data": [{"id": "m\\ud800"}]}'),
    "invalid utf-8": answer(b'{"data": "\xff\xfe"}'),
    "deep": answer(b'{"data": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "endless number": answer(b'{"data": ' + b"1" * 10_000 + b"}"),
    "a wrong charset": answer(b"{}", headers=b"content-type: application/json; charset=nonsense\r\n"),
    "broken gzip": answer(b"\x1f\x8bnothing", headers=b"content-encoding: gzip\r\n"),
    "not http": b"\x00\x01\x02\x03\r\n\r\n",
    "an error": answer(b"{}", status="500 Internal Server Error"),
    "too long a header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    "endless rank": answer(b'{"' + b"9" * 5000 + b'": {"endpoint": "tcp://*:5"}, "x": 3, "1": {"endpoint": "xyz"}}'),
    "odd metrics": answer(
        b'vllm:num_requests_running{engine="' + b"9" * 5000 + b'"} 1\nvllm:cache_config_info{x="\xff'
    ),
    "odd blocks": answer(b'vllm:cache_config_info{block_size="' + b"7" * 5000 + b'",num_gpu_blocks="-3"} 1\n'),
}


@pytest.mark.parametrize("page", ODD.values(), ids=ODD)
async def test_odd_pages_say_nothing(page: bytes) -> None:
    """Every reader survives every page, and nothing is made up."""
    async with _pages(plays_and_closes(page)) as pages:
        models, sources, report = await pages.models(), await pages.event_sources(), await pages.metrics()
        health = await pages.health()

    assert not models
    assert not sources
    assert all(load.kv_blocks is None and load.block_size is None for load in report.ranks.values())
    assert isinstance(health, str)


async def test_an_endless_page_is_given_up() -> None:
    """A server that sends for ever is cut off by size, one that trickles by time."""

    async def flood(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await wire.send(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")

    async def stall(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
        await wire.until_gone()

    async with _pages(flood) as pages:
        assert await pages.metrics() == ServerReport({}, None)
    async with _pages(stall, timeout_s=0.05) as pages:
        assert await pages.health() == "/health: no answer in time"


async def test_what_makes_sense_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """Sources by rank, addresses made connectable; a bad one is left out and told once."""
    page = answer(
        b'{"0": {"endpoint": "tcp://*:5", "replay_endpoint": "tcp://*:6", "topic": "t"}, "1": {"endpoint": "x"}}'
    )
    async with _pages(plays(page)) as pages:
        sources = [await pages.event_sources() for _ in range(3)]

    assert sources == [{0: EventSource("tcp://127.0.0.1:5", "tcp://127.0.0.1:6", "t")}] * 3
    assert caplog.text.count("names an event source that is none") == 1
