"""The admin port's pages and its token."""

from __future__ import annotations

import json
import threading

import pytest

from gateway.observe.admin_app import admin_app
from tests.gateway.observe.asking import ask


async def test_the_two_pages() -> None:
    """JSON of what the callables give."""
    app = admin_app(lambda: {"ready": True}, lambda: [{"id": "a"}], "")

    assert json.loads((await ask(app, "/status")).body) == {"ready": True}
    assert json.loads((await ask(app, "/replicas")).body) == [{"id": "a"}]
    assert (await ask(app, "/docs")).status == 404


async def test_pages_are_made_on_the_event_loop() -> None:
    """They read state that belongs to it: no other thread may."""
    app = admin_app(lambda: {"thread": threading.get_ident()}, lambda: [{"thread": threading.get_ident()}], "")

    assert json.loads((await ask(app, "/status")).body)["thread"] == threading.get_ident()
    assert json.loads((await ask(app, "/replicas")).body)[0]["thread"] == threading.get_ident()


@pytest.mark.parametrize(
    ("sent", "status"), [(None, 401), ("Bearer wrong", 401), ("t0", 200), ("Bearer t0", 200), ("Bearer t0é", 401)]
)
async def test_the_token(sent: str | None, status: int) -> None:
    """Missing or wrong is 401 on every path, whether it exists or not."""
    app = admin_app(lambda: {"ready": True}, lambda: [{"id": "a"}], "t0")
    headers = {"authorization": sent} if sent else {}

    assert (await ask(app, "/status", headers=headers)).status == status
    assert (await ask(app, "/nowhere", headers=headers)).status == (401 if status == 401 else 404)
    assert (await ask(app, "/drain", "POST", headers=headers)).status == (401 if status == 401 else 404)


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:9465", None, 200),
        ("[::1]:9465", None, 200),
        ("localhost", None, 200),
        ("LocalHost:80", "http://LocalHost:80", 200),
        ("evil.example:9465", None, 403),
        ("127.0.0.1.evil.example", None, 403),
        ("localhost.evil.example", "http://localhost.evil.example", 403),
        ("[evil.example]", None, 403),
        ("127.0.0.1:9465", "https://evil.example", 403),
        ("127.0.0.1:9465", "http://127.0.0.1:3000", 403),
        ("127.0.0.1:9465", "null", 403),
    ],
)
async def test_without_a_token_no_foreign_web_page_may_ask(host: str, origin: str | None, status: int) -> None:
    """Neither by a name that its DNS turns into this machine's, nor from another origin; with one it must have it."""
    headers = {"host": host} | ({"origin": origin} if origin else {})

    page = await ask(admin_app(dict, list, ""), "/status", headers=headers)
    assert page.status == status
    assert status == 200 or json.loads(page.body)["error"]["code"] == "foreign_page"
    with_token = await ask(admin_app(dict, list, "t0"), "/status", headers={**headers, "authorization": "Bearer t0"})
    assert with_token.status == 200


@pytest.mark.parametrize(
    ("path", "method", "token", "status", "message"),
    [
        ("/status", "GET", "t0", 401, "The admin token is missing or wrong."),
        ("/nowhere", "GET", "", 404, "There is no /nowhere here."),
        ("/status", "POST", "", 405, "/status takes GET."),
        ("/orders", "GET", "", 404, "There is no /orders here."),
    ],
)
async def test_errors_have_one_shape(path: str, method: str, token: str, status: int, message: str) -> None:
    """OpenAI's, as on the public port. Without a desk there are no orders."""
    page = await ask(admin_app(dict, list, token), path, method)

    assert page.status == status
    assert json.loads(page.body)["error"]["message"] == message
    assert page.headers.get("allow") == ("GET" if status == 405 else None)
