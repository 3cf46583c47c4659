"""Usage that only we ask for: the replica is asked, and the client never knows."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.usage_for_us import HiddenUsage, InTurn, asking_for_usage
from gateway.prompt.inference_request import InferenceRequest
from gateway.usage import Usage
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, answer, chunk, plays, plays_and_closes
from tests.gateway.edge.running import running_edge

BODY = b'{"model":"m","prompt":"hello","stream":true}'
ASKING = b'{"stream_options":{"include_usage":true},"model":"m","prompt":"hello","stream":true}'
# As vLLM 0.32 sends them.
BEGIN = b'data: {"id":"c","choices":[{"index":0,"text":"hi \\"finish_reason\\":\\"x","finish_reason":null}]}\n\n'
FINISH = b'data: {"id":"c","choices":[{"index":0,"text":"!","finish_reason":"stop","token_ids":null}]}\n\n'
STAMPED = FINISH.replace(b"]}\n", b'],"system_fingerprint":"v-\\"1"}\n')
USAGE = (
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":33,"total_tokens":35,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":32}},"system_fingerprint":"v-\\"1"}\n\n'
)
DONE = b"data: [DONE]\n\n"
SENT = BEGIN + BEGIN + FINISH + USAGE + DONE
SEEN = BEGIN + BEGIN + STAMPED + DONE


def asked(body: bytes, kind: str = "completions") -> bytes | None:
    return asking_for_usage(InferenceRequest.parse(kind, body), body)


def passed(*pieces: bytes) -> bytes:
    """What a client gets of an answer in these pieces."""
    hidden = HiddenUsage()
    return b"".join(hidden.feed(piece, at == len(pieces) - 1) for at, piece in enumerate(pieces))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BODY, ASKING),
        (b' \n{ "stream" : 1 }', b' \n{"stream_options":{"include_usage":true}, "stream" : 1 }'),
        (b'{"stream":true,"stream_options":null}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
        (b'{"stream":true,"stream_options":{}, "x":1}',
         b'{"stream":true,"stream_options":{"include_usage":true}, "x":1}'),
        (b'{"stream_options":{"include_usage":false},"stream":true,"prompt":"\xc3\xa9\\u00e9"}',
         b'{"stream_options":{"include_usage":true},"stream":true,"prompt":"\xc3\xa9\\u00e9"}'),
        (b'{"stream":true,"stream_options":{"include_usage":null,"continuous_usage_stats":false}}',
         b'{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":false}}'),
        (b'{"stream":true,"prompt":"\\"stream_options\\"","x":{"stream_options":1}}',
         (b'{"stream_options":{"include_usage":true},"stream":true,"prompt":"\\"stream_options\\"",'
          b'"x":{"stream_options":1}}')),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_stream_whose_client_did_not_ask(body: bytes, expected: bytes, kind: str) -> None:
    """Is asked for it in the least number of bytes."""
    assert asked(body, kind) == expected
    assert json.loads(expected)["stream_options"]["include_usage"] is True


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt":"x"}',
        b'{"prompt":"x","stream":false}',
        b'{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}',
        b'{"prompt":"x","stream":true,"stream_options":{"include_usage":"yes"}}',
        b'{"prompt":"x","stream":true,"stream_options":{"continuous_usage_stats":true}}',
        b'{"prompt":"x","stream":true,"stream_options":[1]}',
        b'{"prompt":"x","stream":true,"n":2}',
        b'{"prompt":["x","y"],"stream":true}',
        b'\xef\xbb\xbf{"prompt":"x","stream":true}',
        '{"prompt":"x","stream":true}'.encode("utf-16"),
    ],
)
def test_all_others_are_left_alone(body: bytes) -> None:
    """No stream, asked already, would change every event or tell nothing, or is no plain UTF-8."""
    assert asked(body) is None


def test_routes_that_have_it_anyway_are_left_alone() -> None:
    """Responses and messages end with their usage."""
    assert [asked(b'{"stream":true}', kind) for kind in ("responses", "messages", "embeddings")] == [None] * 3


def test_the_usage_is_gone_and_the_finish_is_whole() -> None:
    """As vLLM answers whom it was not asked by."""
    assert passed(SENT) == passed(BEGIN, BEGIN, FINISH, USAGE, DONE, b"") == SEEN


@given(st.lists(st.integers(0, len(SENT)), max_size=12))
def test_however_it_is_cut(cuts: list[int]) -> None:
    """Into pieces of any size."""
    ends = sorted({0, len(SENT), *cuts})

    assert passed(*(SENT[start:end] for start, end in pairwise(ends))) == SEEN


@pytest.mark.parametrize(
    "stream",
    [
        BEGIN + BEGIN,
        BEGIN + FINISH,
        BEGIN + FINISH + DONE,
        BEGIN + FINISH + b'data: {"error":{"message":"dead","code":500}}\n\n' + DONE,
        BEGIN + FINISH + FINISH + DONE,
        BEGIN + BEGIN[:30],
        b"",
        b"no events at all",
        b"x" * (1 << 21),
        STAMPED,
    ],
)
def test_a_stream_without_usage_passes_as_it_is(stream: bytes) -> None:
    """An engine that died, a server that knows no usage."""
    assert passed(stream) == passed(*(stream[at : at + 7000] for at in range(0, len(stream), 7000)), b"") == stream


def test_without_a_fingerprint_nothing_is_added() -> None:
    """Nor to a finish of another form."""
    plain = USAGE.replace(b',"system_fingerprint":"v-\\"1"', b"")
    odd = FINISH.replace(b"]}\n", b'],"metrics":{}}\n')

    assert passed(BEGIN, FINISH + plain + DONE) == BEGIN + FINISH + DONE
    assert passed(BEGIN, odd + USAGE + DONE) == BEGIN + odd + DONE
    assert passed(BEGIN, USAGE + DONE) == BEGIN + DONE


def test_events_are_not_held_back() -> None:
    """But the finish, until the next one."""
    hidden = HiddenUsage()

    assert [hidden.feed(piece, last=False) for piece in (BEGIN, FINISH, USAGE, DONE)] == [BEGIN, b"", STAMPED, DONE]


def test_two_changes_in_turn() -> None:
    """What the first holds back comes to the second later."""
    both, pieces = InTurn(HiddenUsage(), HiddenUsage()), (BEGIN + FINISH[:9], FINISH[9:], USAGE, DONE)

    assert b"".join(both.feed(piece, last=piece is DONE) for piece in pieces) == BEGIN + STAMPED + DONE


async def test_the_client_never_knows() -> None:
    """The replica is asked, its count is noted, and the answer is as if nobody had asked; its framing holds."""
    pieces = [chunk(SENT[at : at + 50]) for at in range(0, len(SENT), 50)]
    async with (
        ScriptedServer(plays(SSE_HEAD, *pieces, LAST_CHUNK)) as server,
        running_edge(server.origin, ask_usage=True) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))

        assert (await client.answer()).body == SEEN
        assert edge.router.attempts[0].usage == edge.exchanges[0].usage == Usage(33, 2, 32)
        assert edge.exchanges[0].bytes_out == len(SEEN)
        assert server.requests[0].body == ASKING


@pytest.mark.parametrize(("body", "ask_usage"), [(ASKING, True), (BODY, False)])
async def test_whoever_asks_gets_it(body: bytes, ask_usage: bool) -> None:
    """Once, as it is; and so does everybody where the setting is off."""
    async with (
        ScriptedServer(plays(SSE_HEAD, chunk(SENT), LAST_CHUNK)) as server,
        running_edge(server.origin, ask_usage=ask_usage) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(body))

        assert (await client.answer()).body == SENT
        assert server.requests[0].body == body


async def test_an_alias_too() -> None:
    """Both changes of one answer."""
    named = SENT.replace(b'"id":"c"', b'"id":"c","model":"m"')
    pieces = [chunk(named[at : at + 40]) for at in range(0, len(named), 40)]
    async with (
        ScriptedServer(plays(SSE_HEAD, *pieces, LAST_CHUNK)) as server,
        running_edge(server.origin, ask_usage=True, aliases={"nick": "m"}) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY.replace(b'"m"', b'"nick"')))

        assert (await client.answer()).body == SEEN.replace(b'"id":"c"', b'"id":"c","model":"nick"')
        assert json.loads(server.requests[0].body)["model"] == "m"


async def test_an_error_is_no_stream() -> None:
    """It passes as it is."""
    error = b'{"error":{"message":"no"}}'
    async with (
        ScriptedServer(plays(answer(error, status="400 Bad Request"))) as server,
        running_edge(server.origin, ask_usage=True) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))

        assert (await client.answer()).body == error


async def test_a_stream_that_breaks_off_after_its_finish() -> None:
    """What was held back comes before the error."""
    async with (
        ScriptedServer(plays_and_closes(SSE_HEAD, chunk(BEGIN + FINISH))) as server,
        running_edge(server.origin, ask_usage=True) as edge,
        RawClient(edge.port) as client,
    ):
        await client.send(post(BODY))

        assert (await client.answer()).body.startswith(BEGIN + FINISH + b'data: {"error"')
