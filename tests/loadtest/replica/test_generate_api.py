"""Chat and completions as an OpenAI client sees them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import openai
import pytest

from loadtest.replica import Fault, Speeds
from loadtest.replica.model_folder import ModelFolder
from tests.fakes.raw_client import RawClient, post
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import MODEL, chat, events, running

LONG = "turtle " * 100
FOLDER = ModelFolder()


async def test_a_plain_chat_answer_has_vllms_fields() -> None:
    """Message, reason and usage with cached_tokens; the answer's model is the one asked for."""
    async with running() as (_, client):
        answer = (await client.post("/v1/chat/completions", json=chat())).json()

    (choice,) = answer["choices"]
    assert answer["object"] == "chat.completion"
    assert answer["model"] == MODEL
    assert choice["message"]["role"] == "assistant"
    assert len(FOLDER.encode(choice["message"]["content"])) == 4
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_a_chat_stream_opens_with_the_role_and_ends_with_usage() -> None:
    """Role chunk, a chunk for each token, usage on request, [DONE]; the text is the plain answer's."""
    async with running() as (_, client):
        plain = (await client.post("/v1/chat/completions", json=chat())).json()
        body = chat(stream=True, stream_options={"include_usage": True})
        stream = await client.post("/v1/chat/completions", json=body)

    first, *tokens, usage = events(stream.content)
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in tokens)
    assert text == plain["choices"][0]["message"]["content"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in tokens] == [None, None, None, "length"]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)


async def test_a_stream_without_the_option_has_no_usage() -> None:
    """As vLLM: only stream_options.include_usage brings the chunk."""
    async with running() as (_, client):
        stream = await client.post("/v1/completions", json={"prompt": "x", "stream": True})

    chunks = events(stream.content)
    assert len(chunks) == 16  # max_tokens of a completion that names none
    assert all("usage" not in chunk for chunk in chunks)


async def test_completions_take_text_tokens_and_lists_of_either() -> None:
    """A choice for each prompt, in order; usage is the sum."""
    async with running() as (_, client):
        answers = [
            (await client.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2})).json()
            for prompt in ("turtle", [5, 6], ["turtle", [5, 6]])
        ]

    texts = [[choice["text"] for choice in answer["choices"]] for answer in answers]
    assert texts[2] == texts[0] + texts[1]
    assert answers[2]["usage"]["completion_tokens"] == 4


async def test_a_follow_up_finds_its_prefix_and_says_so() -> None:
    """The next turn's cached_tokens cover the first one's prompt and answer, down to whole blocks."""
    async with running() as (replica, client):
        first = chat(LONG, max_tokens=30)
        answer = (await client.post("/v1/chat/completions", json=first)).json()
        said = {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}
        follow_up = first | {"messages": [*first["messages"], said, {"role": "user", "content": "And?"}]}
        usage = (await client.post("/v1/chat/completions", json=follow_up)).json()["usage"]

        fed = answer["usage"]["total_tokens"] - 1  # the last token has no KV
        assert usage["prompt_tokens_details"]["cached_tokens"] == fed // 16 * 16
        assert replica.scheduler.stats.hit_tokens == fed // 16 * 16


async def test_salts_and_loras_do_not_share_a_prefix() -> None:
    """The same text under another salt or adapter is a miss, and a hit the second time."""
    async with running(loras=("ad",)) as (_, client):
        cached = []
        for fields in ({}, {"cache_salt": "s"}, {"model": "ad"}) * 2:
            answer = await client.post("/v1/chat/completions", json=chat(LONG, **fields))
            cached.append(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert cached[:3] == [0, 0, 0]
    assert min(cached[3:]) > 0


async def test_prompt_logprobs_skip_the_cache_and_reports_can_repeat_it() -> None:
    """The two switches a body has over the cache."""
    async with running() as (replica, client):
        await client.post("/v1/chat/completions", json=chat(LONG))
        skipped = await client.post("/v1/chat/completions", json=chat(LONG, prompt_logprobs=1))
        published = [replica.publisher.next_sequence]
        for mode in ("incremental", "full"):
            xargs = {"kv_cache_report_mode": mode}
            await client.post("/v1/chat/completions", json=chat(LONG, max_tokens=1, vllm_xargs=xargs))
            published.append(replica.publisher.next_sequence)

    assert skipped.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert [later - earlier for earlier, later in pairwise(published)] == [0, 1]


@pytest.mark.parametrize("header", ["1", "0"])
async def test_a_header_pins_the_rank(header: str) -> None:
    """Each rank has its own cache; out of range is the client's fault."""
    async with running(ranks=2) as (replica, client):
        await client.post("/v1/completions", json={"prompt": LONG}, headers={"x-data-parallel-rank": header})
        refused = await client.post("/v1/completions", json={"prompt": "x"}, headers={"x-data-parallel-rank": "2"})

        assert [bool(rank.cache.resident_prefixes()) for rank in replica.ranks] == [header == "0", header == "1"]
        assert refused.status_code == 400


async def test_a_request_id_comes_back() -> None:
    """In the header and in the answer's id."""
    async with running() as (_, client):
        answer = await client.post("/v1/completions", json={"prompt": "x"}, headers={"x-request-id": "mine"})

    assert answer.headers["x-request-id"] == "mine"
    assert answer.json()["id"] == "cmpl-mine"


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/completions", b'{"model": ', 400, "body.10"),
        ("/v1/completions", b"\xff", 400, "body.0"),
        ("/v1/completions", b"[]", 400, "body."),
        ("/v1/completions", b"", 400, "body.0"),
        ("/v1/completions", b'{"model": "nope", "prompt": "x"}', 404, "model"),
        ("/v1/completions", b'{"model": 3, "prompt": "x"}', 400, "body.model"),
        ("/v1/completions", b"{}", 400, None),
        ("/v1/completions", b'{"prompt": {"a": 1}}', 400, "body.prompt"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": "abc"}', 400, "body.max_tokens"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 0}', 400, "max_tokens"),
        ("/v1/completions", b'{"prompt": ""}', 400, None),
        ("/v1/completions", b'{"prompt": [[5, 99999]]}', 400, None),
        ("/v1/completions", b'{"prompt": "' + b"turtle " * 2000 + b'"}', 400, "input_tokens"),
        ("/v1/chat/completions", b"{}", 400, "body.messages"),
        ("/v1/chat/completions", b'{"messages": []}', 400, None),
        ("/v1/chat/completions", b'{"messages": [1]}', 400, "body.messages.0.role"),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": 3}]}', 400, None),
    ],
)
async def test_refuses_as_vllm_does(path: str, body: bytes, status: int, param: str | None) -> None:
    """A JSON error of OpenAI's shape, with the status inside as well."""
    async with running(capacity_blocks=100) as (_, client):
        answer = await client.post(path, content=body)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, status, param)
    assert error["message"]


async def test_an_answer_is_clipped_at_the_context_limit() -> None:
    """A prompt near the limit gets what fits, not an error."""
    async with running(max_model_len=64) as (_, client):
        answer = (await client.post("/v1/completions", json={"prompt": [5] * 60, "max_tokens": 50})).json()

    assert answer["usage"]["completion_tokens"] == 4


async def test_an_answer_nobody_limits_stops_by_itself() -> None:
    """It ends with the end-of-sequence token, which is counted and not shown."""
    async with running(answer_tokens=(3, 3)) as (_, client):
        body = chat()
        del body["max_tokens"]
        answer = (await client.post("/v1/chat/completions", json=body)).json()
        forced = (await client.post("/v1/chat/completions", json=chat(max_tokens=9, ignore_eos=True))).json()

    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 4
    assert forced["usage"]["completion_tokens"] == 9


async def test_a_fixed_answer_arrives_whole_in_pieces_of_bytes() -> None:
    """Characters of several tokens are not cut by the text, though the sockets cut them anywhere."""
    text = "naïve 世界 👋"
    async with running(answer_text=text) as (replica, client):
        replica.faults.split_bytes = 1
        stream = await client.post("/v1/chat/completions", json=chat(max_tokens=50, stream=True))

    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in events(stream.content)) == text


async def test_the_head_of_a_stream_does_not_wait_for_prefill() -> None:
    """Headers come at once, and the first body byte when the engine has computed."""
    never = Speeds(prefill_tokens_per_s=0.001)
    async with running(speeds=never) as (replica, _), RawClient(replica.http.port) as raw:
        await raw.send(post(b'{"prompt": "x", "stream": true}'))

        assert b"transfer-encoding: chunked" in await raw.read_until(b"\r\n\r\n")
        assert replica.scheduler.stats.generated_tokens == 0


@pytest.mark.parametrize("stream", ["true", "false"])
async def test_a_client_that_leaves_ends_its_generation(stream: str) -> None:
    """The request leaves the engine, its blocks are free, and what was cached stays cached."""
    slow = Speeds(step_s=0.005, sequence_s=0)
    async with running(speeds=slow) as (replica, _):
        async with RawClient(replica.http.port) as raw:
            await raw.send(post(b'{"prompt": "%b", "ignore_eos": true, "max_tokens": 8000, "stream": %b}' % (
                LONG.encode(), stream.encode(),
            )))  # fmt: skip
            await eventually(lambda: replica.scheduler.stats.generated_tokens > 2)
        await eventually(lambda: replica.scheduler.running == 0)

        assert replica.cache.used_blocks == 0
        assert replica.cache.resident_prefixes()
        assert replica.http.connections == 0


async def test_the_openai_client_works() -> None:
    """Unchanged, plain and streamed."""
    async with running() as (replica, _), openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="x") as client:
        messages: Any = [{"role": "user", "content": "Hello"}]
        plain = await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=3)
        stream = await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=3, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]

    assert plain.choices[0].message.content == "".join(pieces)


@pytest.mark.parametrize(("status", "retry_after_s"), [(429, 7), (503, None), (500, None)])
async def test_can_refuse_the_next_requests(status: int, retry_after_s: int | None) -> None:
    """With vLLM's error shape, for as many as asked."""
    async with running() as (replica, client):
        replica.faults.add(Fault(status=status, retry_after_s=retry_after_s), times=2)
        answers = [await client.post("/v1/completions", json={"prompt": "x"}) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [status, status, 200]
    assert answers[0].json()["error"]["code"] == status
    assert answers[0].headers.get("retry-after") == (str(retry_after_s) if retry_after_s else None)


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize(("chunks", "stream"), [(0, "true"), (3, "true"), (0, "false"), (1, "false")])
async def test_can_die_after_some_chunks(chunks: int, stream: str, *, reset: bool) -> None:
    """The bytes of that many chunks, then an RST, or a FIN that comes too early."""
    async with running() as (replica, _), RawClient(replica.http.port) as raw:
        replica.faults.add(Fault(die_after_chunks=chunks, reset=reset))
        await raw.send(post(b'{"prompt": "x", "max_tokens": 9, "stream": %b}' % stream.encode()))

        await raw.read_until(b"\r\n\r\n")
        if reset:
            with pytest.raises(ConnectionResetError):
                await raw.read_to_end()
        else:
            body = await raw.read_to_end()
            assert body.count(b"data: ") == (chunks if stream == "true" else 0)
            assert bool(body) == (chunks > 0)


@pytest.mark.parametrize("fault", [Fault(stall_before_head=True), Fault(stall_after_chunks=0)])
async def test_can_stall_until_released(fault: Fault) -> None:
    """Before the head or after it: nothing more comes, then everything does."""
    async with running() as (replica, _), RawClient(replica.http.port) as raw:
        replica.faults.add(fault)
        await raw.send(post(b'{"prompt": "x", "stream": true}'))
        if not fault.stall_before_head:
            assert b"200 OK" in await raw.read_until(b"\r\n\r\n")
        await eventually(lambda: replica.faults.stalled == 1)

        replica.faults.release()

        assert b"[DONE]" in await raw.read_until(b"[DONE]")
