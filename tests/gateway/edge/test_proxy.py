"""Bytes through the whole edge: what was sent is what arrives, both ways, and every exchange is recorded once."""

from __future__ import annotations

import asyncio
import gzip
import json

import httpx
import pytest

from gateway.fleet.outcome import Outcome
from gateway.prompt.inference_request import InferenceRequest
from gateway.usage import Usage
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    ScriptedServer,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
)
from tests.fakes.stand_in_router import StandInPrepared, StandInRouter
from tests.fakes.waiting import eventually
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello"}'
CHAT = "/v1/chat/completions"


async def test_a_clients_body_reaches_the_replica_byte_for_byte() -> None:
    """Unknown fields, key order, big numbers, spacing and escapes are nobody's to touch."""
    fields = ", ".join(f'"unknown_{n}" : {n}{"0" * n}.5e-3' for n in range(30))
    body = (
        '{ "z":1e400, "model" : "m",\t"prompt":"\\u00e9ü\\/", ' + fields + ', "seed": 18446744073709551617 }\n'
    ).encode()
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(body))
        assert server.requests[0].body == body
        assert server.requests[0].values("content-length") == [b"%d" % len(body)]


async def test_a_chunked_body_arrives_whole_with_its_length() -> None:
    """vLLM would take a body without a length for an empty one."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
        got = await client.ask(head + chunk(BODY[:7]) + chunk(BODY[7:]) + LAST_CHUNK)
        assert got.status == 200
        assert server.requests[0].body == BODY
        assert server.requests[0].values("content-length") == [b"%d" % len(BODY)]
        assert not server.requests[0].values("transfer-encoding")


async def test_a_large_body_passes() -> None:
    """A 20 MB image in JSON is an ordinary request."""
    body = b'{"model":"m","prompt":"%b"}' % (b"A" * 20_000_000)
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(body))).status == 200
        assert server.requests[0].body == body


async def test_path_and_query_go_on_as_they_came() -> None:
    """The query does not matter for finding the route."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(b"{}", path="/v1/messages?beta=true&x=%2F"))).status == 200
        assert server.requests[0].line == b"POST /v1/messages?beta=true&x=%2F HTTP/1.1"
        assert server.requests[0].values("host") == [b"127.0.0.1:%d" % server.port]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"content-type: application/json\r\n", b'{"a": 1e999, "b":"\\u00e9"}'),
        (b"content-type: application/json\r\ncontent-encoding: gzip\r\n", gzip.compress(b'{"a":1}', mtime=0)),
        (b"content-type: audio/x-unknown;q=1\r\n", bytes(range(256)) * 500),
        (b"", b""),
        (b"Content-Encoding: gzip\r\n", b""),
    ],
)
async def test_a_plain_answer_reaches_the_client_byte_for_byte(headers: bytes, body: bytes) -> None:
    """Compressed, binary, untyped, empty: with its length and its headers."""
    async with (
        ScriptedServer(plays(answer(body, headers=headers))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.complete) == (200, body, True)
        for line in headers.split(b"\r\n")[:-1]:
            assert tuple(line.split(b": ")) in got.headers
        assert got.value("content-length") == b"%d" % len(body)
        assert not got.values("transfer-encoding")


async def test_a_stream_reaches_the_client_as_it_comes() -> None:
    """Each piece arrives before the next is sent, though it end in the middle of a character."""
    pieces = [b"data: \xe2", b"\x82", b"\xac\n", b"\n", b"data: [DONE]\n\n"]
    gates = [asyncio.Event() for _ in pieces]

    async def script(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        for gate, piece in zip(gates, pieces):
            await gate.wait()
            await wire.send(chunk(piece))
        await wire.send(LAST_CHUNK)

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY))
        gates[0].set()
        head = await client.read_until(b"\r\n\r\n")
        assert b"content-type: text/event-stream; charset=utf-8\r\n" in head
        for piece, following in zip(pieces, [*gates[1:], gates[-1]]):
            assert await client.read_until(chunk(piece)) == chunk(piece)
            following.set()
        assert await client.read_until(LAST_CHUNK) == LAST_CHUNK


async def test_gzip_streams_pass_untouched() -> None:
    """Nothing decodes them, and no usage is made up."""
    data = gzip.compress(b'data: {"usage":{"prompt_tokens":1}}\n\n' * 50)
    head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    async with (
        ScriptedServer(plays(head, chunk(data[:9]), chunk(data[9:]) + LAST_CHUNK)) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY, headers=b"accept-encoding: gzip\r\n"))
        assert (got.body, got.value("content-encoding")) == (data, b"gzip")
        assert server.requests[0].values("accept-encoding") == [b"gzip"]
        await eventually(lambda: edge.exchanges)
        assert edge.exchanges[0].usage is None


async def test_an_answer_that_ends_with_its_connection_gets_chunks() -> None:
    """The client can tell its end from a break."""
    async with (
        ScriptedServer(plays_and_closes(b"HTTP/1.1 200 OK\r\n\r\nall of it")) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.body, got.complete, got.values("transfer-encoding")) == (b"all of it", True, [b"chunked"])


async def test_a_204_has_no_body_and_the_connection_goes_on() -> None:
    """Neither length nor chunks are invented for it."""
    async with (
        ScriptedServer(plays(b"HTTP/1.1 204 No Content\r\n\r\n"), plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert (got.status, got.body, got.values("transfer-encoding")) == (204, b"", [])
        assert (await client.ask(post(BODY))).status == 200


async def test_interim_answers_are_not_taken_for_the_answer() -> None:
    """103 comes before what was asked for."""
    async with (
        ScriptedServer(plays(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY))).status == 200


async def test_connections_are_reused_on_both_sides() -> None:
    """Ten requests, one connection here and one there."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        for _ in range(10):
            assert (await client.ask(post(BODY))).status == 200
        assert server.connections == 1
        assert repr(edge.upstream) == "<UpstreamPool 0 busy, 1 idle>"


async def test_headers_are_said_once() -> None:
    """The replica's Server and Date are kept and not doubled; the request id is the client's."""
    headers = b"date: then\r\nserver: uvicorn\r\nx-request-id: theirs\r\ncontent-type: application/json\r\n"
    async with (
        ScriptedServer(plays(answer(b"{}", headers=headers))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY, headers=b"x-request-id: mine\r\nx-prefixway-replica: forged\r\n"))
        assert (got.value("date"), got.value("server"), got.value("content-type")) == (
            b"then",
            b"uvicorn",
            b"application/json",
        )
        assert (got.value("x-request-id"), got.value("x-prefixway-replica")) == (b"mine", b"a")
        (name,) = server.requests[0].values("x-request-id")
        assert name.startswith(b"mine-")
        assert not server.requests[0].values("x-prefixway-replica")


async def test_the_receipt_may_be_kept_back() -> None:
    """Between tenants only the request id is shown."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, show_receipt=False) as edge,
        RawClient(edge.port) as client,
    ):
        got = await client.ask(post(BODY))
        assert not [name for name, _ in got.headers if name.startswith(b"x-prefixway-")]
        assert got.values("x-request-id")


async def test_keys_are_exchanged_on_the_way() -> None:
    """The client's opens the gateway, the replica's opens the replica, and neither sees the other's."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, api_keys=["client-key"], replica_api_key="replica-key") as edge,
        RawClient(edge.port) as client,
    ):
        assert (await client.ask(post(BODY, headers=b"Authorization: Bearer client-key\r\n"))).status == 200
        assert server.requests[0].values("authorization") == [b"Bearer replica-key"]


async def test_a_pinned_rank_is_named_to_the_server() -> None:
    """A client cannot name one itself."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, pinned_rank=2) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(BODY, headers=b"X-data-parallel-rank: 7\r\n"))
        assert server.requests[0].values("x-data-parallel-rank") == [b"2"]


async def test_the_router_is_given_what_it_needs() -> None:
    """Route, model and stream from the body; session and strategy from headers, if those are allowed."""
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    headers = b"x-tenant-session: s2\r\nx-session-id: s1\r\nx-prefixway-strategy: least_loaded\r\n"
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin, session_headers=["X-Session-Id", "x-tenant-session"], client_strategy=True) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(body, path=CHAT, headers=headers))
        request = edge.router.requests[0]
        assert (request.route, request.model, request.stream, request.session) == ("chat", "m", True, "s1")
        assert edge.router.strategies == ["least_loaded"]
        assert server.requests[0].values("x-session-id") == [b"s1"]


async def test_a_clients_strategy_is_ignored_unless_allowed() -> None:
    """By default the operator's choice stands."""
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(BODY, headers=b"x-prefixway-strategy: least_loaded\r\n"))
        assert edge.router.strategies == [None]


async def test_an_exchange_is_recorded_once_with_its_times_in_order() -> None:
    """What metrics and the access log are made of."""
    usage = b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}'
    async with (
        ScriptedServer(plays(answer(usage))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        await client.ask(post(BODY, headers=b"x-request-id: r\r\n"))
        await eventually(lambda: edge.exchanges)
        (exchange,) = edge.exchanges
        times = [exchange.received_s, exchange.prepared_s, exchange.decided_s, exchange.first_byte_s, exchange.ended_s]
        assert times == sorted(times)
        assert times[0] > 0
        assert (exchange.route, exchange.request_id, exchange.model, exchange.status) == ("completions", "r", "m", 200)
        assert (exchange.outcome, exchange.error, exchange.attempts, exchange.bytes_out) == ("ok", "", 1, len(usage))
        assert exchange.usage == Usage(9, 2, 4)
        assert exchange.decision is edge.router.attempts[0].decision
        assert edge.router.attempts[0].usage == exchange.usage
        assert edge.router.attempts[0].first_bytes == 1


@pytest.mark.parametrize("path", ["/v1/completions", CHAT])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"model":7,"prompt":"x"}', b"null"])
async def test_bodies_that_cannot_be_read_are_the_clients_fault(path: str, body: bytes) -> None:
    """A 4xx of OpenAI's shape, and no attempt."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(post(body, path=path))
        assert got.status == 400
        assert json.loads(got.body)["error"]["type"] == "invalid_request_error"
        assert (edge.exchanges[0].outcome, edge.exchanges[0].error) == ("refused", "BadRequest")
        assert not edge.router.attempts


async def test_no_replica_is_said_with_its_reason_and_when_to_come_back() -> None:
    """503, OpenAI's shape, Retry-After."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        got = await client.ask(post(BODY))
        assert (got.status, got.value("retry-after")) == (503, b"2")
        assert json.loads(got.body)["error"]["code"] == "no_replica"
        assert edge.exchanges[0].error == "NoReplica"


async def test_an_upload_passes() -> None:
    """With its boundary and bytes."""
    upload = (
        b'--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        + bytes(range(256))
        + b"\r\n--b--\r\n"
    )
    async with (
        ScriptedServer(plays(answer(b"{}"))) as server,
        running_edge(server.origin) as edge,
        RawClient(edge.port) as client,
    ):
        headers = b"content-type: multipart/form-data; boundary=b\r\n"
        assert (await client.ask(post(upload, path="/v1/audio/transcriptions", headers=headers))).status == 200
        assert server.requests[0].body == upload
        assert edge.router.requests[0].model == ""


# The client leaves


@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset])
@pytest.mark.parametrize(
    "sent", [(), (SSE_HEAD,), (SSE_HEAD, chunk(b"data: 1\n\n"))], ids=["nothing", "head", "stream"]
)
@pytest.mark.parametrize("hold_head", [True, False])
async def test_a_client_that_leaves_ends_the_generation(
    leave: object, sent: tuple[bytes, ...], hold_head: bool
) -> None:
    """Before the head, before the first byte or in the stream; by FIN or RST: the replica's connection closes."""
    assert callable(leave)

    async def script(wire: Wire) -> None:
        await wire.send(*sent)
        await wire.until_gone()

    async with (
        ScriptedServer(script) as server,
        running_edge(server.origin, hold_head=hold_head) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))
        await eventually(lambda: server.requests)
        if len(sent) == 2:
            await client.read_until(b"data: 1\n\n\r\n")
        leave(client)
        await eventually(server.wires[0].gone.is_set)
        await eventually(lambda: edge.exchanges)
        assert edge.router.outcomes == [Outcome.CLIENT_GONE]
        assert edge.exchanges[0].outcome == "client_gone"
        assert len(edge.exchanges) == 1
        assert repr(edge.upstream) == "<UpstreamPool 0 busy, 0 idle>"


async def test_a_client_that_leaves_in_its_own_body_leaves_nothing() -> None:
    """No attempt was made, and none is left."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        await client.send(post(BODY)[:-5])
        await eventually(lambda: edge.server.connections)
        client.close()
        await eventually(lambda: edge.exchanges)
        assert edge.exchanges[0].outcome == "client_gone"


async def test_a_client_that_leaves_while_its_prompt_is_looked_up_is_let_go() -> None:
    """Nothing is sent for it."""
    async with running_edge() as edge, RawClient(edge.port) as client:
        edge.router.may_prepare.clear()
        await client.send(post(BODY))
        await eventually(lambda: edge.router.waiting)
        client.close()
        await eventually(lambda: edge.exchanges)
        assert edge.exchanges[0].outcome == "client_gone"
        assert not edge.router.attempts


async def test_many_cancels_do_not_exhaust_anything() -> None:
    """After 100 clients that left, the next is served at once."""

    async def script(wire: Wire) -> None:
        if b"stay" in wire.request.body:
            await wire.send(answer(b"{}"))
        else:
            await wire.send(SSE_HEAD, chunk(b"data: 1\n\n"))
            await wire.until_gone()

    async with ScriptedServer(script) as server, running_edge(server.origin) as edge:
        for _ in range(100):
            async with RawClient(edge.port) as client:
                await client.send(post(BODY))
                await client.read_until(b"data: 1\n\n\r\n")
                client.reset()
        async with RawClient(edge.port) as client:
            assert (await client.ask(post(b'{"model":"m","prompt":"stay"}'))).status == 200
        await eventually(lambda: server.open_connections <= 1)


async def test_a_client_that_leaves_after_its_answer_changes_nothing() -> None:
    """The attempt ended well, once."""
    async with ScriptedServer(plays(answer(b"{}"))) as server, running_edge(server.origin) as edge:
        for _ in range(20):
            async with RawClient(edge.port) as client:
                await client.ask(post(BODY, headers=b"connection: close\r\n"))
        await eventually(lambda: len(edge.exchanges) == 20)
        assert {exchange.outcome for exchange in edge.exchanges} == {"ok"}
        assert set(edge.router.outcomes) == {Outcome.OK}


async def test_a_client_that_reads_nothing_pauses_the_replica() -> None:
    """What is not read is not fetched; when it is, nothing is missing."""
    size, sent = 30_000_000, 0

    async def flood(wire: Wire) -> None:
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        while sent < size:
            await wire.send(chunk(b"x" * 50_000))
            sent += 50_000
        await wire.send(LAST_CHUNK)

    async with ScriptedServer(flood) as server, running_edge(server.origin) as edge, RawClient(edge.port) as client:
        await client.send(post(BODY))
        await _stands_still(lambda: sent)
        assert 0 < sent < size
        got = await client.answer()
        assert (len(got.body), got.complete) == (size, True)


async def _stands_still(value: object) -> None:
    """Return when a count has not changed for many turns of the loop."""
    assert callable(value)
    last, same = value(), 0
    while same < 20:
        await asyncio.sleep(0.005)
        same = same + 1 if value() == last and last else 0
        last = value()


async def test_a_fault_of_our_own_is_an_answer_and_a_line() -> None:
    """Whatever fails inside costs its request alone: 500 of OpenAI's shape, and an exchange that says so."""

    class Broken(StandInRouter):
        def prepare_now(self, request: InferenceRequest, *, strategy: str | None = None) -> StandInPrepared:
            raise RuntimeError("odd")

    async with running_edge(router=Broken([])) as edge:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{edge.port}", trust_env=False) as client:
            answer = await client.post("/v1/completions", json={"prompt": "x"})
        await eventually(lambda: edge.exchanges)

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "gateway_fault"
    assert answer.headers["x-request-id"]
    assert (edge.exchanges[0].outcome, edge.exchanges[0].status) == ("fault", 500)
