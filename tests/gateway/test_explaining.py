"""What would be decided for a body, read as the public port reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.edge.aliases import ModelAliases
from gateway.edge.routes import Routes
from gateway.errors import BadRequest, MethodNotAllowed, NoReplica, RouteNotAllowed, RouteNotFound
from gateway.explaining import Explaining
from gateway.fleet.discovery.discovery import Discovery
from gateway.fleet.discovery.polling import Found, LookupFailed, PollingDiscovery
from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.replica_pool import ReplicaPool
from tests.fakes.background import running
from tests.gateway.examples import MODEL, a_pool, a_router


def _explaining(discovery: Discovery | None = None, pool: ReplicaPool | None = None) -> Explaining:
    found = discovery or StaticDiscovery("", None, lambda _: None)
    router = a_router(pool or a_pool())
    return Explaining(router, Routes(), ModelAliases({"nick": MODEL}), found, patience_s=0.1)


async def _explain(path: str, **body: Any) -> dict[str, Any]:
    return await _explaining().explain(path, json.dumps(body).encode(), b"application/json", "")


async def test_the_path_says_what_the_body_is() -> None:
    """Its kind is in the answer."""
    page = await _explain("/v1/completions", prompt=list(range(100)))

    assert (page["path"], page["request"]["route"], page["prompt"]["tokens"]) == ("/v1/completions", "completions", 100)


@pytest.mark.parametrize(
    ("fields", "route"),
    [({"messages": [{"role": "user", "content": "hi"}]}, "chat"), ({"prompt": [1, 2]}, "completions")],
)
async def test_without_a_path_the_fields_tell(fields: dict[str, Any], route: str) -> None:
    """As vLLM takes a body on its one route for all."""
    assert (await _explain("", **fields))["request"]["route"] == route


async def test_an_alias_is_resolved() -> None:
    """What the client calls it is told beside the model's own name."""
    page = await _explain("", model="nick", prompt=[1, 2])

    assert (page["request"]["model"], page["request"]["alias"]) == (MODEL, "nick")


async def test_an_upload_is_read_as_a_form() -> None:
    """Its content type has the boundary."""
    form = b'--c\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--c--\r\n'
    page: Any = await _explaining().explain("/v1/audio/transcriptions", form, b"multipart/form-data; boundary=c", "")

    assert page["request"]["route"] == "other"
    assert page["choice"] is not None


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/v1/completions", b"{odd", BadRequest),
        ("", b"[]", BadRequest),
        ("/nowhere", b"{}", RouteNotFound),
        ("/livez", b"{}", MethodNotAllowed),
        ("/ping", b"{}", RouteNotFound),
        ("/pause", b"{}", RouteNotAllowed),
    ],
)
async def test_what_the_public_port_refuses_is_refused(path: str, body: bytes, error: type[Exception]) -> None:
    """With its errors."""
    with pytest.raises(error):
        await _explaining().explain(path, body, b"application/json", "")


class _Directory:
    """Cannot be read the first time."""

    def __init__(self, answer: Found | None) -> None:
        self._answer = answer
        self._asked = 0

    async def look_up(self) -> Found:
        self._asked += 1
        if self._answer is None or self._asked == 1:
            raise LookupFailed("it is on fire")
        return self._answer

    async def close(self) -> None: ...


async def test_right_after_the_start_it_waits_until_it_is_known_who_is_there() -> None:
    """For a while; then it says why it is not known."""
    known, unknown = a_pool("a=http://a:1"), ReplicaPool()
    directory = _Directory(Found([server.spec for server in known.servers]))
    discovery = PollingDiscovery(directory, known.reconcile, clock=lambda: 0.0, interval_s=0.01)
    lost = PollingDiscovery(_Directory(None), unknown.reconcile, clock=lambda: 0.0, interval_s=0.01)
    asked = "", b'{"prompt": [1, 2]}', b"application/json", ""
    async with running(discovery.run()), running(lost.run()):
        page: Any = await _explaining(discovery, known).explain(*asked)
        with pytest.raises(NoReplica, match="not found yet: it is on fire"):
            await _explaining(lost, unknown).explain(*asked)

    assert page["choice"]["replica"] == "a"
    assert discovery.failures == 1
