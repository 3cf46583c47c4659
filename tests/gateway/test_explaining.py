"""What would be decided for a body, read as the public port reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.edge.aliases import ModelAliases
from gateway.edge.routes import Routes
from gateway.errors import BadRequest, MethodNotAllowed, RouteNotAllowed, RouteNotFound
from gateway.explaining import Explaining
from tests.gateway.examples import MODEL, a_pool, a_router


def _explaining() -> Explaining:
    return Explaining(a_router(a_pool()), Routes(), ModelAliases({"nick": MODEL}))


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
