"""The routes for orders: bodies in, the desk's answers out, errors in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI

from gateway.errors import OrdersUnavailable
from gateway.observe.admin_app import admin_app
from tests.gateway.observe.asking import Page, ask

JSON = {"content-type": "application/json; charset=utf-8"}


class Desk:
    """Says what it was told."""

    def orders(self) -> dict[str, object]:
        return {"orders": []}

    def strategy(self) -> dict[str, object]:
        return {"strategy": "kv_aware"}

    async def set_strategy(self, name: str, author: str, id_: str) -> dict[str, object]:
        if name == "while redis is away":
            raise OrdersUnavailable("Redis is not available.")
        return {"set": [name, author, id_]}

    async def clear_strategy(self, author: str, id_: str) -> dict[str, object]:
        return {"clear": [author, id_]}

    async def drain(self, server: str, author: str, id_: str) -> dict[str, object]:
        return {"drain": [server, author, id_]}

    async def undrain(self, server: str, author: str, id_: str) -> dict[str, object]:
        return {"undrain": [server, author, id_]}


def _app(desk: Desk | None = None) -> FastAPI:
    return admin_app(dict, list, "", desk or Desk())


async def _send(method: str, path: str, body: Any, headers: dict[str, str] = JSON) -> Page:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await ask(_app(), path, method, headers, data)


async def test_pages() -> None:
    """Read without a body."""
    assert json.loads((await ask(_app(), "/orders")).body) == {"orders": []}
    assert json.loads((await ask(_app(), "/strategy")).body) == {"strategy": "kv_aware"}


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/strategy", {"name": "x", "author": "ann", "id": "1"}, {"set": ["x", "ann", "1"]}),
        ("POST", "/strategy", {"name": "x", "since": "later versions"}, {"set": ["x", "", ""]}),
        ("DELETE", "/strategy", {"author": "ann", "id": "1"}, {"clear": ["ann", "1"]}),
        ("DELETE", "/strategy", b"", {"clear": ["", ""]}),
        ("POST", "/drain", {"server": "a", "author": "ann"}, {"drain": ["a", "ann", ""]}),
        ("POST", "/undrain", {"server": "a", "id": "1"}, {"undrain": ["a", "", "1"]}),
    ],
)
async def test_orders(method: str, path: str, body: Any, told: dict[str, object]) -> None:
    """Author and id may be left out; what is not known is ignored."""
    page = await _send(method, path, body)

    assert (page.status, json.loads(page.body)) == (200, told)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", {}, {"server": 5}, {"server": "a", "author": 5}])
async def test_a_wrong_body_is_refused(body: Any) -> None:
    """400, and the message says where it is wrong."""
    page = await _send("POST", "/drain", body)
    error = json.loads(page.body)["error"]

    assert page.status == 400
    assert error["message"].startswith("The body is not what it should be: ")
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}, {"content-type": "multipart/form-data"}])
async def test_a_page_in_a_browser_cannot_order(headers: dict[str, str]) -> None:
    """It can send such bodies to a loopback port without asking anybody."""
    page = await _send("POST", "/drain", {"server": "a"}, headers)

    assert page.status == 400
    assert "application/json" in json.loads(page.body)["error"]["message"]


async def test_an_order_that_cannot_be_given_now() -> None:
    """503 with a code for programs, and when to try again."""
    page = await _send("POST", "/strategy", {"name": "while redis is away"})

    assert (page.status, page.headers["retry-after"]) == (503, "1")
    assert json.loads(page.body)["error"] == {
        "message": "Redis is not available.",
        "type": "service_unavailable",
        "param": None,
        "code": "redis_unavailable",
    }
