"""The routes besides generation."""

from __future__ import annotations

import asyncio

import pytest

from loadtest.replica import Speeds
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import MODEL, chat, running


async def test_health_and_ping_are_empty_200s() -> None:
    """And what the fault says when it says so."""
    async with running() as (replica, client):
        answers = [await client.get("/health"), await client.get("/ping"), await client.post("/ping")]
        replica.faults.health_status = 503

        assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"")] * 3
        assert (await client.get("/health")).status_code == 503


async def test_models_tell_where_the_tokenizer_is_and_whose_adapter_a_lora_is() -> None:
    """The base model's root is its folder; a LoRA has a parent and no context length."""
    async with running(loras=("ad",)) as (replica, client):
        base, lora = (await client.get("/v1/models")).json()["data"]

    assert (base["id"], base["root"], base["parent"]) == (MODEL, str(replica.folder.path), None)
    assert base["max_model_len"] == 16_384
    assert (lora["id"], lora["parent"], lora["max_model_len"]) == ("ad", MODEL, None)


async def test_tokenize_is_what_a_chat_is_charged_for() -> None:
    """/tokenize of the messages counts the prompt tokens of the answer, and detokenizes to the prompt."""
    async with running() as (_, client):
        usage = (await client.post("/v1/chat/completions", json=chat("Grüße"))).json()["usage"]
        body = {"model": MODEL, "messages": chat("Grüße")["messages"], "return_token_strs": True}
        tokenized = (await client.post("/tokenize", json=body)).json()
        text = (await client.post("/detokenize", json={"tokens": tokenized["tokens"]})).json()["prompt"]
        plain = (await client.post("/tokenize", json={"prompt": "turtle"})).json()

    assert tokenized["count"] == len(tokenized["tokens"]) == usage["prompt_tokens"]
    assert tokenized["token_strs"][0] == "<|im_start|>"
    assert text == "<|im_start|>user\nGrüße<|im_end|>\n<|im_start|>assistant\n"
    assert plain["token_strs"] is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {}, 400),
        ("/tokenize", {"model": "nope", "prompt": "x"}, 404),
        ("/detokenize", {"tokens": "x"}, 400),
        ("/_sim/faults", {"nonsense": 1}, 400),
        ("/_sim/faults", {"fault": {"nonsense": 1}}, 400),
    ],
)
async def test_odd_bodies_are_client_errors(path: str, body: dict[str, object], status: int) -> None:
    """Never a broken connection."""
    async with running() as (_, client):
        assert (await client.post(path, json=body)).status_code == status


async def test_unknown_routes_and_methods_answer_as_fastapi_does() -> None:
    """404 and 405 with a detail, the latter with what is allowed."""
    async with running() as (_, client):
        missing, wrong = await client.get("/v1/nope?x=1"), await client.get("/v1/completions")

    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    assert (wrong.status_code, wrong.json(), wrong.headers["allow"]) == (405, {"detail": "Method Not Allowed"}, "POST")


async def test_event_sources_name_each_ranks_sockets() -> None:
    """One entry a rank; none where events are off; no such route on an older server."""
    async with running(ranks=2) as (replica, client):
        sources = (await client.get("/kv_event_sources")).json()
    async with running(kv_events=False) as (_, client):
        off = await client.get("/kv_event_sources")
    async with running(lists_event_sources=False) as (_, client):
        older = await client.get("/kv_event_sources")

    assert [sources[rank]["endpoint"] for rank in "01"] == [rank.publisher.endpoint for rank in replica.ranks]
    assert sources["0"]["replay_endpoint"] == replica.publisher.replay_endpoint
    assert (off.json(), older.status_code) == ({}, 404)


async def test_a_reset_empties_the_cache_and_is_published_with_the_next_step() -> None:
    """AllBlocksCleared waits in the queue while the engine idles."""
    async with running() as (replica, client):
        await client.post("/v1/chat/completions", json=chat("turtle " * 50))
        published = replica.publisher.next_sequence
        reset = (await client.post("/reset_prefix_cache")).json()
        waiting = replica.publisher.next_sequence
        again = (await client.post("/v1/chat/completions", json=chat("turtle " * 50))).json()

    assert (reset, waiting) == ({"success": True}, published)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_version_and_load() -> None:
    """As numbers a prober reads."""
    async with running() as (_, client):
        assert (await client.get("/version")).json() == {"version": "0.32.0"}
        assert (await client.get("/load")).json() == {"server_load": 0}


async def test_an_engine_asleep_lets_requests_wait_and_says_so() -> None:
    """Its pages answer all the while; awake it serves what waited, from an empty cache, and tells so only then."""
    async with running() as (replica, client):
        await client.post("/v1/chat/completions", json=chat("turtle " * 50))
        published = replica.publisher.next_sequence
        assert (await client.post("/sleep?level=2")).json() == {"status": "sleeping", "level": 2}
        waiting = asyncio.create_task(client.post("/v1/chat/completions", json=chat("turtle " * 50)))
        await eventually(lambda: replica.scheduler.waiting)
        metrics = (await client.get("/metrics")).text
        assert (await client.get("/is_sleeping")).json() == {"is_sleeping": True}
        assert ((await client.get("/health")).status_code, replica.publisher.next_sequence) == (200, published)
        assert not waiting.done()

        await client.post("/wake_up")
        usage = (await waiting).json()["usage"]
        awake = (await client.get("/metrics")).text

    states = [line.rsplit('sleep_state="')[1] for line in metrics.splitlines() if "sleep_state=" in line]
    assert states == ['awake"} 0.0', 'weights_offloaded"} 0.0', 'discard_all"} 1.0']
    assert 'sleep_state="awake"} 1.0' in awake
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert replica.publisher.next_sequence > published


async def test_what_runs_when_it_falls_asleep_is_aborted() -> None:
    """vLLM's default; a light sleep keeps the cache."""
    async with running(speeds=Speeds(step_s=0.02)) as (replica, client):
        running_one = asyncio.create_task(client.post("/v1/chat/completions", json=chat("a " * 60, max_tokens=900)))
        await eventually(lambda: replica.scheduler.stats.generated_tokens)
        await client.post("/sleep?level=0")
        answer = (await running_one).json()
        held = len(replica.cache.resident_prefixes())

    assert answer["choices"][0]["finish_reason"] == "abort"
    assert held > 0


async def test_resets_are_counted_until_the_process_ends() -> None:
    """By path, as vLLM counts all it is asked."""
    async with running() as (replica, client):
        for path in ("/reset_prefix_cache", "/reset_prefix_cache", "/sleep", "/wake_up"):
            await client.post(path)
        counted = [line for line in (await client.get("/metrics")).text.splitlines() if line.startswith("http_req")]
        await replica.restart()
        after = (await client.get("/metrics")).text

    assert counted == [
        'http_requests_total{handler="/reset_prefix_cache",method="POST",status="2xx"} 2.0',
        'http_requests_total{handler="/sleep",method="POST",status="2xx"} 1.0',
        'http_requests_total{handler="/wake_up",method="POST",status="2xx"} 1.0',
    ]
    assert "http_requests_total{" not in after
