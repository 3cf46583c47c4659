from __future__ import annotations

import json

import pytest

from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, ScriptedServer, answer, chunk, plays
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n"


@pytest.mark.parametrize("size", [1001, 300_000])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_and_the_connection_lives(size: int, chunked: bool) -> None:
    """413 in OpenAI's shape, with or without a length to know it by."""
    async with running_edge(max_body_bytes=1000) as edge, RawClient(edge.port) as client:
        body = b"x" * size
        framed = b"transfer-encoding: chunked\r\n\r\n" + chunk(body) + LAST_CHUNK
        got = await client.ask(HEAD + framed if chunked else post(body))
        assert got.status == 413
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert (edge.exchanges[0].error, edge.exchanges[0].outcome) == ("BodyTooLarge", "refused")
        assert (await client.ask(get("/health"))).status == 200


async def test_a_body_at_the_limit_passes() -> None:
    """The limit is the last size that is allowed."""
    body = b'{"model":"m","prompt":"%b"}' % (b"x" * 975)
    assert len(body) == 1000
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, max_body_bytes=1000) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(body))).status == 200


async def test_a_declared_length_is_refused_before_the_body_comes() -> None:
    """Nobody has to send a gigabyte to be told no."""
    async with running_edge(max_body_bytes=1000) as edge, RawClient(edge.port) as client:
        await client.send(HEAD + b"content-length: 1000000000000\r\nexpect: 100-continue\r\n\r\n")
        assert (await client.answer()).status == 413
        await eventually(lambda: edge.exchanges)
