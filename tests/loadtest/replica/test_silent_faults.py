"""What is wrong although every request is answered: as it shows in answers, metrics, events and replays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

from loadtest.replica import SilentFaults
from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from loadtest.replica.publisher import wall_clock
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import MODEL, Running, chat, running

PROMPT = list(range(100, 140))
STORED = BlockStored((1, 2), None, (0,) * 32, 16, 1, "ada", (("ada", "salt"), ("ada",)))
REMOVED, CLEARED = BlockRemoved((1,)), AllBlocksCleared()
EVENTS: list[KVEvent] = [STORED, REMOVED, CLEARED]


def _published(**cues: Any) -> list[KVEvent]:
    silent = SilentFaults()
    silent.apply(cues)
    return silent.published(EVENTS)


def test_without_faults_events_are_what_happened() -> None:
    """All of them, as they are."""
    assert _published() == EVENTS


def test_what_happens_to_events() -> None:
    """Each fault to its own kind; that the cache was cleared is always told, if anything is."""
    assert _published(mutes_events=True) == []
    assert _published(drops_removals=True) == [STORED, CLEARED]
    assert _published(doubles_removals=True) == [STORED, REMOVED, REMOVED, CLEARED]
    bare, other = _published(drops_extra_keys=True)[0], _published(lora_of_events="bob")[0]
    assert isinstance(bare, BlockStored)
    assert isinstance(other, BlockStored)
    assert (bare.lora_name, bare.extra_keys) == ("ada", (None, None))
    assert (other.lora_name, other.extra_keys) == ("bob", (("bob", "salt"), ("bob",)))


def test_blocks_of_the_base_model_stay_its_own() -> None:
    """Adapters are exchanged, not made up."""
    cache = BlockCache(8, 16)
    cache.serve(PROMPT, scope=CacheScope(cache_salt="salt"))
    events = cache.take_events()
    silent = SilentFaults(lora_of_events="bob")

    assert silent.published(events) == events


@pytest.mark.parametrize("cues", [{"nonsense": 1}, {"mutes_events": True, "nonsense": 1}])
def test_an_unknown_one_is_an_error(cues: dict[str, Any]) -> None:
    """And nothing is set."""
    silent = SilentFaults()
    with pytest.raises(ValueError, match="nonsense"):
        silent.apply(cues)

    assert silent == SilentFaults()


async def _cue(server: Running, **cues: Any) -> None:
    """While it runs, as anybody may."""
    (await server.client.post("/_sim/faults", json=cues)).raise_for_status()


async def _silently(server: Running, **cues: Any) -> None:
    await _cue(server, silent=cues)


async def _complete(server: Running, prompt: Any = PROMPT, **fields: Any) -> dict[str, Any]:
    """Its usage."""
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, **fields}
    answer = (await server.client.post("/v1/completions", json=body)).raise_for_status()
    usage: dict[str, Any] = answer.json()["usage"]
    return usage


def _cached(usage: dict[str, Any]) -> int:
    tokens: int = usage["prompt_tokens_details"]["cached_tokens"]
    return tokens


async def _tokens(server: Running, **body: Any) -> list[int]:
    answer = await server.client.post("/tokenize", json={"model": MODEL, **body})
    tokens: list[int] = answer.raise_for_status().json()["tokens"]
    return tokens


async def test_another_template() -> None:
    """Chats have a line more, here and in /tokenize; texts do not."""
    async with running() as server:
        text, messages = {"prompt": "hello there"}, {"messages": chat()["messages"]}
        before = await _tokens(server, **messages), await _tokens(server, **text)
        await _silently(server, template_preamble="Be kind. ")
        after = await _tokens(server, **messages), await _tokens(server, **text)
        usage = (await server.client.post("/v1/chat/completions", json=chat())).json()["usage"]

    assert after[0][-len(before[0]) :] == before[0]
    assert len(after[0]) > len(before[0])
    assert usage["prompt_tokens"] == len(after[0])
    assert after[1] == before[1]


async def test_another_tokenizer() -> None:
    """Of equal counts, or of other ones; token ids are what they are."""
    async with running() as server:
        text = {"prompt": "tell me about the sea"}
        plain = await _tokens(server, **text)
        await _silently(server, shifts_tokens=True)
        shifted = await _tokens(server, **text)
        await _silently(server, shifts_tokens=False, splits_tokens=True)
        split = await _tokens(server, **text)
        counts = [(await _complete(server, prompt))["prompt_tokens"] for prompt in (text["prompt"], PROMPT)]

    assert len(shifted) == len(plain)
    assert set(shifted) != set(plain)
    assert len(split) > len(plain)
    assert counts == [len(split), len(PROMPT)]


async def test_salt_is_ignored() -> None:
    """What one tenant sent is found by another."""
    async with running() as server:
        await _complete(server, cache_salt="one")
        apart = await _complete(server, cache_salt="two")
        await _silently(server, ignores_salt=True)
        await _complete(server, cache_salt="three")
        shared = await _complete(server, cache_salt="four")

    assert (_cached(apart), _cached(shared)) == (0, 32)


async def test_prefix_caching_is_off_and_on_again() -> None:
    """Nothing is found or stored meanwhile, and the metrics say so; what is held stays."""
    async with running() as server:
        await _complete(server)
        await _silently(server, caches=False)
        off = [await _complete(server), await _complete(server, PROMPT[::-1])]
        page = (await server.client.get("/metrics")).text
        stored = server.replica.publisher.next_sequence
        await _silently(server, caches=True)
        on = [await _complete(server), await _complete(server, PROMPT[::-1])]

    assert list(map(_cached, [*off, *on])) == [0, 0, 32, 0]
    assert 'enable_prefix_caching="False"' in page
    assert stored == 1


async def test_usage_without_details_and_metrics_with_another_block_size() -> None:
    """The one leaves out, the other lies."""
    async with running() as server:
        await _silently(server, tells_cached_tokens=False, claimed_block_size=32)
        usage = await _complete(server)
        page = (await server.client.get("/metrics")).text
        await _silently(server, hides_metrics=True)
        bare = (await server.client.get("/metrics")).text

    assert "prompt_tokens_details" not in usage
    assert 'block_size="32"' in page
    assert "process_start_time_seconds" in bare
    assert "vllm:" not in bare


async def test_a_cache_that_is_lost_tells_nobody() -> None:
    """Nothing is found any more, and no event was published for that."""
    async with running() as server:
        await _complete(server)
        before = server.replica.publisher.next_sequence
        await _cue(server, lose_cache=True)
        after = server.replica.publisher.next_sequence
        usage = await _complete(server)

    assert (before, after, _cached(usage)) == (1, 1, 0)


async def test_events_of_somebody_else_are_listed() -> None:
    """Whoever asks where the events are is sent away."""
    async with running() as server:
        await _silently(server, lists_events_of=["tcp://other:1", None])
        page = (await server.client.get("/kv_event_sources")).json()["0"]

    assert (page["endpoint"], page["replay_endpoint"]) == ("tcp://other:1", None)


@asynccontextmanager
async def _listening(server: Running) -> AsyncIterator[list[tuple[float, Any]]]:
    """Each batch that arrives: when, in seconds since the epoch, and what."""
    heard: list[tuple[float, Any]] = []
    with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as socket:
        socket.connect(server.replica.publisher.endpoint)
        socket.subscribe(b"")
        await eventually(server.replica.publisher.has_subscriber)

        async def hear() -> None:
            while True:
                *_, payload = await socket.recv_multipart()
                heard.append((wall_clock(), msgspec.msgpack.decode(payload)))

        task = asyncio.ensure_future(hear())
        yield heard
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_events_come_late_and_in_order() -> None:
    """With the time at which they happened; those of a replica that is killed meanwhile never come."""
    async with running() as server, _listening(server) as heard:
        await _silently(server, delays_events_s=0.2)
        for start in (0, 200):
            await _complete(server, list(range(start, start + 40)))
        await _silently(server, delays_events_s=0.0)
        await _complete(server, list(range(400, 440)))
        await eventually(lambda: len(heard) == 3)
        first_tokens = [batch[1][0]["token_ids"][0] for _, batch in heard]
        await _silently(server, delays_events_s=60.0)
        await _complete(server, list(range(600, 640)))
        await server.replica.restart()

    assert first_tokens == [0, 200, 400]
    assert all(arrived_s >= happened_s + 0.2 for arrived_s, (happened_s, *_) in heard[:2])
    assert server.replica.publisher.next_sequence == 0


async def _replayed(server: Running) -> list[int]:
    """The first token of each batch that a replay from 0 gives."""
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(server.replica.publisher.replay_endpoint or "")
        await socket.send_multipart([b"", bytes(8)])
        tokens: list[int] = []
        while True:
            *_, payload = await socket.recv_multipart()
            if not payload:
                return tokens
            tokens.append(msgspec.msgpack.decode(payload)[1][0]["token_ids"][0])


async def test_a_replay_may_be_of_an_older_process() -> None:
    """A restart does not clear what it says."""
    async with running() as server:
        await _complete(server, list(range(40)))
        await _cue(server, freeze_replay=True)
        await server.replica.restart()
        await _complete(server, list(range(200, 240)))

        assert await _replayed(server) == [0]
