"""The public port as clients meet it: routes, keys, local answers, and the openai package itself."""

from __future__ import annotations

import json

import openai
import pytest

from gateway.edge.edge_app import MAX_UNUSED_BODY_BYTES
from gateway.errors import NoReplica
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, Wire, answer, chunk, plays
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import MODELS, admission_with, running_edge

BODY = b'{"model":"m","prompt":"hello"}'
KEY = b"Authorization: Bearer k\r\n"


@pytest.mark.parametrize("path", ["/health", "/livez", "/readyz", "/ready", "/ping"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_is_free_of_keys(path: str, method: str) -> None:
    """Orchestrators have none; HEAD has no body."""
    async with running_edge(api_keys=["k"]) as edge, RawClient(edge.port) as client:
        got = await client.ask(get(path, method=method), head_only=method == "HEAD")
        assert (got.status, got.value("content-length")) == (200, b"15")
        assert (await client.ask(get("/livez"))).status == 200
        assert not edge.exchanges


async def test_readiness_and_liveness_are_two_things() -> None:
    """A gateway that should get no traffic is still alive."""
    async with running_edge(ready=lambda: False) as edge, RawClient(edge.port) as client:
        statuses = {
            path: (await client.ask(get(path))).status for path in ("/health", "/readyz", "/ready", "/livez", "/ping")
        }
        assert statuses == {"/health": 503, "/readyz": 503, "/ready": 503, "/livez": 200, "/ping": 503}


async def test_models_are_listed_and_looked_up() -> None:
    """By any name, slashes and escapes included."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        assert (await client.ask(get("/v1/models?x=1"))).body == MODELS
        assert json.loads((await client.ask(get("/v1/models/m"))).body)["id"] == "m"
        for name in ("org/n", "org%2Fn"):
            assert json.loads((await client.ask(get(f"/v1/models/{name}"))).body)["id"] == "org/n"
        missing = await client.ask(get("/v1/models/nope"))
        assert (missing.status, json.loads(missing.body)["error"]["code"]) == (404, "model_not_found")


async def test_models_without_a_replica_are_unavailable() -> None:
    """Not an empty list that a client would believe."""

    def models() -> bytes:
        raise NoReplica("No replica has answered yet.")

    async with running_edge(models=models) as edge, RawClient(edge.port) as client:
        got = await client.ask(get("/v1/models"))
        assert (got.status, got.values("retry-after")) == (503, [b"2"])


@pytest.mark.parametrize(
    ("request_", "status", "kind"),
    [
        (get("/nope"), 404, "RouteNotFound"),
        (post(b"{}", path="/sleep?level=2"), 403, "RouteNotAllowed"),
        (post(b"{}", path="/v1/%63ompletions"), 404, "RouteNotFound"),
        (post(b"{}", path="/v1/models/../completions"), 404, "RouteNotFound"),
        (get("/v1/completions"), 405, "MethodNotAllowed"),
        (get("/v1/completions", method="OPTIONS"), 405, "MethodNotAllowed"),
    ],
)
async def test_what_may_not_pass_is_refused(request_: bytes, status: int, kind: str) -> None:
    """In OpenAI's shape, recorded under one name whatever the path was."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(request_)
        assert got.status == status
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert [(each.route, each.error, each.status) for each in edge.exchanges] == [("unknown", kind, status)]
        assert got.values("allow") == (
            [b"POST"] if request_.startswith((b"GET", b"OPTIONS")) and status == 405 else got.values("allow")
        )
        assert (await client.ask(get("/health"))).status == 200


@pytest.mark.parametrize("request_", [get("/v1/models"), post(BODY), get("/nope"), post(b"{}", path="/sleep")])
async def test_without_the_key_nothing_is_told(request_: bytes) -> None:
    """Not even which routes exist."""
    async with running_edge(api_keys=["k", "l"]) as edge, RawClient(edge.port) as client:
        got = await client.ask(request_)
        assert (got.status, json.loads(got.body)["error"]["code"]) == (401, "invalid_api_key")
        assert edge.exchanges[0].error == "Unauthorized"


async def test_with_the_key_everything_listed_is_open() -> None:
    """A key is enough for models and for inference."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, api_keys=["k"]) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(get("/v1/models", headers=KEY))).status == 200
        assert (await client.ask(post(BODY, headers=KEY))).status == 200
        assert (await client.ask(get("/nope", headers=KEY))).status == 404


async def test_requests_that_are_refused_do_not_break_the_connection() -> None:
    """If all of them had come."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        for _ in range(3):
            assert (await client.ask(post(b"x" * 300, path="/nope"))).status == 404
            assert (await client.ask(post(BODY))).status == 200


async def test_the_body_of_a_request_that_is_refused_is_not_waited_for() -> None:
    """Its answer comes before the body has, and is the last on its connection."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(post(b"x" * 300_000, path="/nope")[:-1])
        assert (got.status, got.complete, got.value("connection")) == (404, True, b"close")
        assert await client.read_to_end() == b""


async def _chat(wire: Wire) -> None:
    """A server as the openai package expects one."""
    if b'"stream":true' in wire.request.body.replace(b" ", b""):
        part = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%b]%b}\n\n'
        words = [
            b'{"index":0,"delta":{"content":"%b"},"finish_reason":null}' % word for word in (b"gr\xc3", b"\xbc\xc3\x9f")
        ]
        raw = b"".join(part % (word, b"") for word in words) + part % (
            b"",
            b',"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}',
        )
        raw += b"data: [DONE]\n\n"
        raw = raw.replace(b'gr\xc3"', b'gr"').replace(b'"\xbc\xc3', b'"\xc3\xbc\xc3')
        await wire.send(SSE_HEAD, *[chunk(raw[at : at + 50]) for at in range(0, len(raw), 50)], LAST_CHUNK)
    else:
        message = b'{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}'
        usage = b'{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}'
        await wire.send(
            answer(
                b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[%b],"usage":%b}'
                % (message, usage)
            )
        )


async def test_the_openai_package_works_unchanged() -> None:
    """Chat, streamed and not; models; errors as its own exceptions."""
    async with ScriptedServer(_chat) as server, running_edge(server.origin, api_keys=["k"]) as edge:
        async with openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{edge.port}/v1", api_key="k", max_retries=0
        ) as client:
            plain = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            assert plain.choices[0].message.content == "hello"
            stream = await client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            parts = [part async for part in stream]
            assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices) == "grüß"
            assert parts[-1].usage is not None
            assert [model.id for model in (await client.models.list()).data] == ["m", "org/n"]
            with pytest.raises(openai.BadRequestError):
                await client.completions.create(model=7, prompt="x")  # type: ignore[call-overload]
        async with openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{edge.port}/v1", api_key="no", max_retries=0
        ) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()


async def test_the_openai_package_sees_a_stream_that_dies() -> None:
    """As an error, after the words that came."""

    async def dies(wire: Wire) -> None:
        choice = b'{"index":0,"text":"hi"}'
        part = b'data: {"id":"c","object":"text_completion","created":1,"model":"m","choices":[%b]}\n\n' % choice
        await wire.send(SSE_HEAD, chunk(part))
        wire.close()

    async with (
        ScriptedServer(dies) as server,
        running_edge(server.origin) as edge,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{edge.port}/v1", api_key="k", max_retries=0) as client,
    ):
        stream = await client.completions.create(model="m", prompt="x", stream=True)
        assert (await anext(stream)).choices[0].text == "hi"
        with pytest.raises(openai.APIError, match="broke off"):
            await anext(stream)


PREFLIGHT = (
    b"OPTIONS /v1/completions HTTP/1.1\r\nhost: g\r\norigin: https://a\r\naccess-control-request-method: POST\r\n"
)


@pytest.mark.parametrize(
    "line", [b"POST /ping HTTP/1.1\r\nhost: g\r\n", b"GET /livez HTTP/1.1\r\nhost: g\r\n", PREFLIGHT]
)
async def test_who_has_no_key_cannot_fill_the_memory(line: bytes) -> None:
    """What needs none has no use for a large body either; a small one does no harm."""
    large = MAX_UNUSED_BODY_BYTES + 1
    async with running_edge(api_keys=["some-key"], cors_origins=["https://a"]) as edge:
        async with RawClient(edge.port) as client:
            small = await client.ask(line + b"content-length: %d\r\n\r\n" % (large - 1) + b"x" * (large - 1))
            assert small.status in (200, 204)
            assert (await client.ask(line + b"content-length: %d\r\n\r\n" % large)).status == 413
        async with RawClient(edge.port) as client:
            await client.send(line, b"transfer-encoding: chunked\r\n\r\n", chunk(b"x" * large))
            assert (await client.answer()).status == 413
        assert [each.error for each in edge.exchanges] == ["BodyTooLarge"] * 2


async def test_pipelined_requests_take_turns_at_one_place() -> None:
    """The next one finds the place free that the last one had, and its connection to the replica."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, admission=admission_with(max_inflight=1, max_queue=0)) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY) * 3)
        await eventually(lambda: len(edge.exchanges) == 3)
        assert [each.status for each in edge.exchanges] == [200] * 3
        assert server.connections == 1


@pytest.mark.parametrize("line", [b"GET /livez HTTP/1.1\r\nhost: g\r\n", b"GET /none HTTP/1.1\r\nhost: g\r\n"])
async def test_caches_are_told_that_the_origin_matters(line: bytes) -> None:
    """Also in an answer to who named none: it must not be given to a page."""
    async with running_edge(cors_origins=["https://a"]) as edge, RawClient(edge.port) as client:
        for origin, allowed in ((b"", []), (b"origin: https://a\r\n", [b"https://a"]), (b"origin: https://b\r\n", [])):
            got = await client.ask(line + origin + b"\r\n")
            assert got.values("vary") == [b"Origin"]
            assert got.values("access-control-allow-origin") == allowed
    async with running_edge() as edge, RawClient(edge.port) as client:
        assert not (await client.ask(line + b"origin: https://a\r\n\r\n")).values("vary")
