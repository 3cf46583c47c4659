"""Every route under every strategy: odd bodies, and all that may happen to a request. Second code paths rot."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable

import pytest

import router_strategies
from tests.end_to_end.matrix import PATHS, UPLOADS, Asker, a_body, matrix
from tests.fakes.raw_client import RawAnswer, RawClient, post
from tests.fakes.scripted_server import (
    LAST_CHUNK,
    SSE_HEAD,
    Script,
    Wire,
    answer,
    chunk,
    plays,
    plays_and_closes,
    plays_and_resets,
)

STRATEGIES = router_strategies.available()
ODD: dict[str, bytes] = {
    "bad JSON": b'{"model": "real", "prompt": "x"',
    "no model": b'{"prompt": "x", "input": "x", "messages": []}',
    "another model": b'{"model": "nope", "prompt": "x"}',
    "wrong types": b'{"model": 7, "messages": {"role": 1}, "prompt": true, "stream": "yes", "max_tokens": []}',
    "wrong types within": b'{"model": "real", "messages": [7, [], {"role": {}}], "prompt": [{}, -1], "input": 3.5}',
    "empty": b"",
    "array": b'[{"model": "real"}]',
    "number": b"3",
    "deep": b'{"model": "real", "prompt": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "BOM": b'\xef\xbb\xbf{"model": "real", "prompt": "x"}',
    "not UTF-8": b'{"model": "real", "prompt": "\xff\xfe", "messages": [{"role": "user", "content": "\xc3"}]}',
    "half a surrogate": b'{"model": "real", "prompt": "\\ud800", "messages": [{"role": "user", "content": "\\ud800"}]}',
    "NaN": b'{"model": "real", "prompt": NaN, "max_tokens": Infinity, "temperature": -Infinity, "messages": [NaN]}',
    "huge numbers": b'{"model": "real", "max_tokens": 1e400, "n": 123456789012345678901234567890, "prompt": [1e99]}',
    "twice": b'{"model": "real", "model": 5, "prompt": "x", "prompt": null, "messages": 1, "messages": []}',
}
BROKEN_FORMS: dict[str, bytes] = {
    "cut off": a_body("/v1/audio/transcriptions")[1][:-20],
    "no boundary": b"model=real",
    "headless": b"--cut\r\n\r\n\r\n--cut--\r\n",
    "model twice": b'--cut\r\ncontent-disposition: form-data; name="model"\r\n\r\nreal\r\n' * 2 + b"--cut--\r\n",
}
TYPES = (b"application/json", b"multipart/form-data; boundary=cut", b"text/plain; charset=\xff", b"")
BY_FORM = set(UPLOADS)


def is_an_error(answered: RawAnswer) -> bool:
    """Whether it has OpenAI's shape."""
    error = json.loads(answered.body)["error"]
    return bool(error["message"]) and error["type"] == "invalid_request_error" and {"param", "code"} <= error.keys()


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_odd_bodies(strategy: str) -> None:
    """A 4xx of OpenAI's shape, or the replica's answer: never a 5xx, and nothing is left of it."""
    async with matrix(strategy) as built:
        for path in PATHS:
            asker = Asker(built, path)
            bodies = {**ODD, **BROKEN_FORMS} if path in BY_FORM else ODD
            async with asker.client() as client:
                for name, body in bodies.items():
                    for content_type in TYPES if path in BY_FORM else TYPES[:1]:
                        lines = b"content-type: %b\r\nauthorization: Bearer sk-right\r\n" % content_type
                        answered = await client.ask(post(body, path=path, headers=lines))

                        assert answered.complete
                        assert 200 <= answered.status < 500, (path, name, answered)
                        if answered.status != 200:
                            assert is_an_error(answered), (path, name, answered)
                        else:
                            assert any(sent.body == body for sent in asker.heard)


# What may happen to a request

EVENT = b'data: {"choices": [{"delta": {"content": "hi"}}], "model": "real"}\n\n'
BEGUN = (SSE_HEAD, chunk(EVENT))
STREAM = plays(SSE_HEAD, chunk(EVENT), chunk(b"data: [DONE]\n\n"), LAST_CHUNK)


async def passes(asker: Asker) -> None:
    """Query, body, the request's id, a receipt. Keys do not, and each attempt has a name of its own."""
    headers = b"x-request-id: mine\r\nx-prefixway-replica: forged\r\n"
    answered = await asker.ask(asker.request(headers=headers, target=f"{asker.path}?beta=true&x=%2F"))
    again = await asker.ask(asker.request(headers=headers))
    first, second = asker.heard

    assert (answered.status, again.status) == (200, 200)
    assert answered.value("x-request-id") == b"mine"
    assert answered.value("x-prefixway-replica") in (b"a", b"b", b"c")
    assert {first.line, second.line} == {
        f"POST {asker.path}{query} HTTP/1.1".encode() for query in ("", "?beta=true&x=%2F")
    }
    assert first.body == second.body == a_body(asker.path)[1]
    names = [request.values("x-request-id") for request in (first, second)]
    assert names[0] != names[1]
    assert all(len(name) == 1 and name[0].startswith(b"mine-") for name in names)
    for request in (first, second):
        assert b"sk-right" not in request.head
        assert b"forged" not in request.head


async def streams(asker: Asker) -> None:
    """Byte by byte."""
    answered = await asker.ask(asker.request(stream=True), STREAM)

    assert (answered.status, answered.body) == (200, EVENT + b"data: [DONE]\n\n")
    assert answered.complete


async def takes_chunks(asker: Asker) -> None:
    """An upload without a length has one at the replica."""
    content_type, body = a_body(asker.path)
    lines = b"content-type: %b\r\nauthorization: Bearer sk-right\r\n" % content_type
    head = b"POST %b HTTP/1.1\r\nhost: gateway\r\n%btransfer-encoding: chunked\r\n\r\n" % (asker.path.encode(), lines)
    answered = await asker.ask(head + chunk(body[:9]) + chunk(body[9:]) + LAST_CHUNK)
    (sent,) = asker.heard

    assert answered.status == 200
    assert (sent.body, sent.values("transfer-encoding")) == (body, [])


async def keeps_what_belongs_to_one_connection(asker: Asker) -> None:
    """Hop-by-hop headers pass neither way (RFC 9110 section 7.6.1)."""
    ours = b"connection: x-secret, keep-alive\r\nx-secret: 1\r\nte: trailers\r\ntrailer: x\r\nkeep-alive: timeout=5\r\n"
    theirs = b"connection: x-inner\r\nx-inner: 1\r\nkeep-alive: timeout=5\r\nproxy-authenticate: no\r\nx-outer: 2\r\n"
    answered = await asker.ask(
        asker.request(headers=ours + b"proxy-authorization: sekret\r\n"), plays(answer(b"{}", headers=theirs))
    )
    (sent,) = asker.heard

    assert answered.value("x-outer") == b"2"
    for name in ("x-secret", "te", "trailer", "keep-alive", "proxy-authorization", "connection", "x-inner"):
        assert not sent.values(name)
        assert not answered.values(name)
    assert not answered.values("proxy-authenticate")


async def leaves_compression_alone(asker: Asker) -> None:
    """Of answers and of errors: label and bytes stay together."""
    packed = gzip.compress(b'{"error": {"message": "no"}, "model": "real"}')
    for status in ("200 OK", "400 Bad Request"):
        answered = await asker.ask(b"", plays(answer(packed, status=status, headers=b"content-encoding: gzip\r\n")))

        assert answered.value("content-encoding") == b"gzip"
        assert answered.body == packed


async def passes_a_clients_error(asker: Asker) -> None:
    """The replica's 400 as it came, for a stream too, and it is asked once."""
    body = b'{"error": {"message": "too long", "code": 400}}'
    answered = await asker.ask(asker.request(stream=True), plays(answer(body, status="400 Bad Request")))

    assert (answered.status, answered.body) == (400, body)
    assert len(asker.heard) == 1


async def tries_another(asker: Asker) -> None:
    """After a 503, a 429, a reset before a byte, a head without a body: the same bytes elsewhere."""
    endings = (
        plays(answer(b"", status="503 Service Unavailable", headers=b"retry-after: 0\r\n")),
        plays(answer(b"", status="429 Too Many Requests", headers=b"retry-after: 0\r\n")),
        plays_and_resets(b""),
        plays_and_closes(SSE_HEAD),
    )
    for ending in endings:
        here = Asker(asker.built, asker.path)
        answered = await here.ask(here.request(), ending)
        one, other = here.heard

        assert answered.status == 200
        assert one.body == other.body == a_body(asker.path)[1]


async def tells_that_a_stream_broke(asker: Asker) -> None:
    """One well-formed error event, and no finish."""
    answered = await asker.ask(asker.request(stream=True), plays_and_closes(SSE_HEAD, chunk(EVENT), b"5\r\nda"))
    passed, _, rest = answered.body.partition(EVENT)
    told = json.loads(rest.rpartition(b"data: ")[2])

    assert answered.complete
    assert passed == b""
    assert b"[DONE]" not in rest
    assert told["error"]["message"]


async def breaks_off_a_plain_answer(asker: Asker) -> None:
    """It must not pass for a whole one."""
    answered = await asker.ask(b"", plays_and_closes(answer(b"1234567890")[:-4]))

    assert (answered.status, answered.body, answered.complete) == (200, b"123456", False)


async def lets_go_when_the_client_leaves(asker: Asker) -> None:
    """Before the head and within a stream, by FIN and by RST: the replica's connection is closed."""
    for pieces, leaving in (
        ((), RawClient.close),
        ((), RawClient.reset),
        (BEGUN, RawClient.close),
        (BEGUN, RawClient.reset),
    ):
        waiting = Waiting(*pieces)
        asker.built.cues.append(waiting.script)
        async with asyncio.timeout(20), asker.client() as client:
            await client.send(asker.request(stream=True))
            await waiting.asked.wait()
            if pieces:
                await client.read_until(b"hi")
            leaving(client)
            await waiting.left.wait()


async def has_aliases(asker: Asker) -> None:
    """The replica gets its name, the client its own."""
    answered = await asker.ask(asker.request(model="nick"))
    streamed = await asker.ask(asker.request(model="nick", stream=True), STREAM)

    assert json.loads(answered.body)["model"] == "nick"
    assert streamed.body == EVENT.replace(b"real", b"nick") + b"data: [DONE]\n\n"
    for sent in asker.heard:
        assert b"nick" not in sent.body


async def wants_a_key(asker: Asker) -> None:
    """None, a wrong one, half of one: 401, and nobody is asked."""
    for key in (b"", b"authorization: Bearer\r\n", b"authorization: Bearer sk-wrong\r\n", b"x-api-key: \r\n"):
        answered = await asker.ask(asker.request(key=key))

        assert (answered.status, json.loads(answered.body)["error"]["type"]) == (401, "authentication_error")
    assert not asker.heard
    assert (await asker.ask(asker.request(key=b"x-api-key: sk-right\r\n"))).status == 200


class Waiting:
    """A script that sends ``pieces`` and then waits until it was ``left``."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    @property
    def script(self) -> Script:
        return self._play

    async def _play(self, wire: Wire) -> None:
        await wire.send(*self._pieces)
        self.asked.set()
        await wire.until_gone()
        self.left.set()


PROBES: tuple[Callable[[Asker], Awaitable[None]], ...] = (
    passes,
    streams,
    takes_chunks,
    keeps_what_belongs_to_one_connection,
    leaves_compression_alone,
    passes_a_clients_error,
    tries_another,
    tells_that_a_stream_broke,
    breaks_off_a_plain_answer,
    lets_go_when_the_client_leaves,
    has_aliases,
    wants_a_key,
)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_what_may_happen(strategy: str) -> None:
    """Each of the above on each route, through one gateway."""
    async with matrix(strategy) as built:
        for path in PATHS:
            for probe in PROBES:
                try:
                    await probe(Asker(built, path))
                except Exception as error:
                    error.add_note(f"{probe.__name__} on {path}")
                    raise


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_refused_connections_cost_nothing(strategy: str) -> None:
    """Two of three replicas are gone, and no probe has noticed: every route answers, from the third."""
    async with matrix(strategy, probe_interval_s="600") as built:
        built.engines["a"].kill()
        built.engines["b"].kill()
        for path in PATHS:
            answered = await Asker(built, path).ask()

            assert (answered.status, answered.value("x-prefixway-replica")) == (200, b"c")
