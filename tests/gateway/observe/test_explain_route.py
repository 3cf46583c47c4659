"""The route of /explain: bytes in, JSON out, errors in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gateway.errors import BadRequest
from gateway.observe.admin_app import admin_app
from gateway.observe.explain_route import explain_route


async def _told(path: str, body: bytes, content_type: bytes, strategy: str) -> dict[str, object]:
    """Says what it was told."""
    if body == b"bad":
        raise BadRequest("The body is bad.")
    return {"path": path, "body": body.decode(), "type": content_type.decode(), "strategy": strategy}


def _app(token: str = "") -> FastAPI:
    return admin_app(dict, list, token, more=[explain_route(_told, 1000)])


async def _ask(target: str = "/explain", content: Any = b"{}", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(_app()), base_url="http://127.0.0.1") as client:
        return await client.post(target, content=content, headers={**headers, "content-type": "application/json"})


@pytest.mark.parametrize(
    ("target", "headers", "strategy"),
    [
        ("/explain?path=/v1/completions", {}, ""),
        ("/explain?path=/v1/completions&strategy=a", {"x-prefixway-strategy": "b"}, "a"),
        ("/explain?path=%2Fv1%2Fcompletions", {"x-prefixway-strategy": "b"}, "b"),
    ],
)
async def test_body_path_and_strategy_reach_it(target: str, headers: dict[str, str], strategy: str) -> None:
    """The body byte by byte; the query wins over the header."""
    told = (await _ask(target, b'{"prompt":  1}', **headers)).json()

    assert told == {
        "path": "/v1/completions",
        "body": '{"prompt":  1}',
        "type": "application/json",
        "strategy": strategy,
    }


async def test_a_bad_body_is_an_error_of_openais_shape() -> None:
    """With its status."""
    answer = await _ask(content=b"bad")

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "The body is bad."


async def test_a_large_body_is_not_read_to_its_end() -> None:
    """However it comes."""
    sent = []

    async def pieces() -> Any:
        for number in range(100):
            sent.append(number)
            yield b"x" * 100

    answer = await _ask(content=pieces())

    assert answer.status_code == 413
    assert "1000 bytes" in json.loads(answer.content)["error"]["message"]


async def test_it_wants_the_token() -> None:
    """As everything on that port."""
    transport = httpx.ASGITransport(_app("t0"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        refused = await client.post("/explain", content=b"{}")
        answered = await client.post("/explain", content=b"{}", headers={"authorization": "Bearer t0"})

    assert (refused.status_code, answered.status_code) == (401, 200)
