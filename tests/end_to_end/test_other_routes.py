"""Every route of vLLM through a whole gateway, and models under other names."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gateway.edge.routes import CONTROL, INFERENCE
from tests.end_to_end.street import street

PATHS = [path for kind, paths in INFERENCE.items() for path in paths.split() if kind not in ("audio", "responses")]
UPLOADS = INFERENCE["audio"].split()
ALIASED = {"model_aliases": "nick=real,näme=real"}


def an_upload(model: str, size: int = 100_000) -> dict[str, Any]:
    """A file and fields, as an HTTP client takes them."""
    return {"files": {"file": ("a.wav", b"\r\n--\x00\xff" * (size // 6))}, "data": {"model": model, "language": "en"}}


async def test_every_route_passes_as_it_is(strategy: str) -> None:
    """Path, query and body, byte by byte, whatever the strategy knows of the prompt."""
    async with street(strategy=strategy) as built:
        (client,) = built.clients
        body = b'{ "model": "real",  "input": "\xc3\xa9", "messages": [{"role":"user","content":"x"}], "prompt": "x" }'
        for path in PATHS:
            answer = await client.post(f"{path}?beta=true&x=%2F", content=body)

            assert (answer.status_code, answer.json()["target"]) == (200, f"{path}?beta=true&x=%2F")
            assert answer.json()["body"].encode("latin-1") == body
        for path in PATHS:
            for no_model in (b"{}", b'{"model": ""}', b'{"model": null}'):  # there is only one
                answer = await client.post(path, content=no_model)

                assert (answer.status_code, answer.json()["body"]) == (200, no_model.decode())


@pytest.mark.parametrize("path", UPLOADS)
async def test_an_upload_passes_as_it_is(strategy: str, path: str) -> None:
    """Boundary, order and bytes of 5 MB; without a model where there is only one."""
    async with street(strategy=strategy) as built:
        (client,) = built.clients
        for upload in (an_upload("real", 5_000_000), {"files": {"file": ("a.wav", b"x")}}):
            request = client.build_request("POST", path, **upload)
            request.read()
            answer = await client.send(request)

            assert (answer.status_code, answer.json()["target"]) == (200, path)
            assert answer.json()["body"].encode("latin-1") == request.content
        (sent,) = (
            each for engine in built.engines.values() for each in engine.requests if each.body == request.content
        )
        assert sent.values("content-type") == [request.headers["content-type"].encode()]


UNREADABLE = {
    b"": "application/json",
    b"[]": "application/json",
    b'{"model": 5}': "application/json",
    b'{"model": "\xff"}': "application/json",
    b"[" * 100_000: "application/json",
    b"--x\r\n": "multipart/form-data; boundary=x",
    b"--y--\r\n": "multipart/form-data; boundary=x",
    b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n': "multipart/form-data; boundary=x",
}


async def test_what_cannot_be_read_is_the_clients_fault(strategy: str) -> None:
    """400 of OpenAI's shape, never a 5xx, and no replica is bothered."""
    async with street(strategy=strategy) as built:
        (client,) = built.clients
        for path in [*PATHS, *UPLOADS, "/v1/responses"]:
            for body, content_type in UNREADABLE.items():
                answer = await client.post(path, content=body, headers={"content-type": content_type})

                assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert not any(engine.requests for engine in built.engines.values())


async def test_control_routes_pass_only_where_they_are_allowed() -> None:
    """By name, to one replica."""
    async with street(allow_routes="/reset_prefix_cache,/version") as built:
        (client,) = built.clients
        for path, methods in CONTROL.items():
            answer = await client.request(methods[0], path)
            if path in ("/reset_prefix_cache", "/version"):
                assert (answer.status_code, answer.json()["target"]) == (200, path)
            else:
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "route_not_allowed")
        targets = sorted(each.line for engine in built.engines.values() for each in engine.requests)
        assert targets == [b"GET /version HTTP/1.1", b"POST /reset_prefix_cache HTTP/1.1"]


async def test_a_websocket_is_refused_clearly() -> None:
    """Not with a 404 or a hanging connection."""
    async with street() as built:
        (client,) = built.clients
        asking = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        for path in ("/v1/realtime", "/v1/chat/completions"):
            answer = await client.get(path, headers=asking)

            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "websocket_not_supported")


# Models under other names


def with_names(text: str, old: str, new: str) -> str:
    """The model's name exchanged, as JSON writes it."""
    return text.replace(json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False))


@pytest.mark.parametrize("alias", ["nick", "näme"])
async def test_an_alias_on_every_route(strategy: str, alias: str) -> None:
    """The replica gets its own name for the model, the client its own; all else stays as it is."""
    async with street(strategy=strategy, **ALIASED) as built:
        (client,) = built.clients
        body = json.dumps({"x": {"model": alias}, "model": alias, "prompt": "x", "y": f'"model":"{alias}"'})
        for path in [*PATHS, "/v1/responses"]:
            answer = await client.post(path, content=body, headers={"content-type": "application/json"})

            assert (answer.status_code, answer.json()["model"]) == (200, alias)
        for engine in built.engines.values():
            for request in engine.requests:
                sent = json.loads(request.body)
                assert (sent["model"], sent["x"], sent["y"]) == ("real", {"model": alias}, f'"model":"{alias}"')


async def test_an_alias_in_a_stream(strategy: str) -> None:
    """Though events come in pieces."""
    async with street(strategy=strategy, **ALIASED) as built:
        (client,) = built.clients
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"):
            answer = await client.post(path, json={"model": "nick", "stream": True, "messages": [], "prompt": "x"})

            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert (answer.text.count('"model": "nick"'), answer.text.count("real")) == (2, 0)


@pytest.mark.parametrize("path", UPLOADS)
async def test_an_alias_in_an_upload(path: str) -> None:
    """Only the field's value is exchanged."""
    async with street(**ALIASED) as built:
        (client,) = built.clients
        request = client.build_request("POST", path, **an_upload("näme"))
        request.read()
        answer = await client.send(request)

        assert answer.json()["model"] == "näme"
        (sent,) = (each for engine in built.engines.values() for each in engine.requests)
        assert sent.body == request.content.replace("näme".encode(), b"real")


async def test_aliases_are_models() -> None:
    """In the list, and each by itself; another name is not."""
    async with street(**ALIASED) as built:
        (client,) = built.clients
        listed = (await client.get("/v1/models")).json()["data"]
        assert listed == [{"id": id_, "max_model_len": 4096} for id_ in ("real", "nick", "näme")]
        assert (await client.get("/v1/models/nick")).json() == listed[1]
        assert (await client.get("/v1/models/n%C3%A4me")).json() == listed[2]
        refused: httpx.Response = await client.post("/v1/completions", json={"model": "nack", "prompt": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
