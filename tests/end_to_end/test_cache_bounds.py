"""Replicas without events, replicas that sleep, and caches that somebody empties: what is believed of each."""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.fleet.server import Server
from gateway.kv.index_budget import BYTES_PER_SENT
from gateway.kv.tiers import Tier
from loadtest.replica import ReplicaOptions
from tests.end_to_end.house import FAST, House, house
from tests.fakes.waiting import eventually

_SMALL = 80  # blocks of a cache in which by far not everything has place


class Shares(NamedTuple):
    """Tokens of a run."""

    prompt: int
    cached: int

    @property
    def hit(self) -> float:
        return self.cached / self.prompt


def _words(rng: random.Random, count: int) -> str:
    return " ".join(f"w{rng.randrange(1000)}" for _ in range(count))


def _options(*, events: bool, blocks: int = _SMALL) -> ReplicaOptions:
    return ReplicaOptions(speeds=FAST, capacity_blocks=blocks, kv_events=events, lists_event_sources=events)


async def _converse(home: House, system: str, seed: int) -> Shares:
    """Three turns, each on top of the one before and its answer."""
    rng, prompt, cached = random.Random(seed), 0, 0
    messages = [{"role": "system", "content": system}]
    for _ in range(3):
        messages.append({"role": "user", "content": _words(rng, 12)})
        body = {"model": "simulated", "messages": messages, "max_tokens": 24}
        answer = (await home.client.post("/v1/chat/completions", json=body)).raise_for_status().json()
        messages.append(answer["choices"][0]["message"])
        prompt += answer["usage"]["prompt_tokens"]
        cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return Shares(prompt, cached)


async def _conversations(home: House) -> Shares:
    """Twenty-four of them, four at a time, under eight system prompts: far more than the caches hold."""
    systems = [_words(random.Random(number), 120) for number in range(8)]
    gate = asyncio.Semaphore(4)

    async def one(number: int) -> Shares:
        async with gate:
            return await _converse(home, systems[number % 8], number)

    shares = await asyncio.gather(*(one(number) for number in range(24)))
    return Shares(sum(share.prompt for share in shares), sum(share.cached for share in shares))


async def test_without_events_almost_as_much_is_found_in_caches() -> None:
    """Caches too small for the work, evicting all the time: what was sent where tells nearly as much as events."""
    found: list[Shares] = []
    for events in (True, False):
        async with house(options=_options(events=events)) as home:
            found.append(await _conversations(home))
    told, guessed = found

    assert told.hit > 0.4
    assert guessed.hit > 0.9 * told.hit


async def test_what_is_expected_without_events_fits_into_the_cache() -> None:
    """The capacity that the replica tells bounds it, answers included; a restart forgets it all."""
    async with house(ids=("a",), options=_options(events=False)) as home:
        (replica,) = home.gateway.pool.replicas
        await eventually(lambda: replica.kv_tokens)
        await _conversations(home)
        assert replica.kv_tokens == _SMALL * 16
        assert 0 < home.gateway.fellowship.budget.used_bytes <= _SMALL * BYTES_PER_SENT

        await home.replicas["a"].restart()
        await eventually(lambda: home.gateway.fellowship.budget.used_bytes == 0)


async def test_who_sleeps_gets_nothing_until_it_wakes() -> None:
    """Neither what it held before; all asleep there is an error that says so, and nobody waits."""
    async with house(ids=("a", "b"), options=_options(events=True)) as home:
        text = _words(random.Random(1), 200)
        first = (await home.complete(text)).headers["x-prefixway-replica"]
        await eventually(home.events_settled)
        holder = home.replicas[first]
        async with httpx.AsyncClient(base_url=holder.url, trust_env=False) as engine:
            await engine.post("/sleep?level=1")
            await eventually(lambda: _server(home, first).asleep)
            others = {(await home.complete(f"{text} {n}")).headers["x-prefixway-replica"] for n in range(5)}
            shown = {replica["id"]: replica for replica in await _replicas(home)}
            assert others == {"a", "b"} - {first}
            assert (shown[first]["asleep"], shown[first]["fault"], shown[first]["healthy"]) == (True, "asleep", False)
            assert shown[first]["owned_blocks"]["l0"] == 0

            (other,) = others
            async with httpx.AsyncClient(base_url=home.replicas[other].url, trust_env=False) as second:
                await second.post("/sleep")
                await eventually(lambda: _server(home, other).asleep)
                refused = await home.complete(text)
                assert refused.status_code == 503
                assert "asleep" in refused.json()["error"]["message"]
            await engine.post("/wake_up")
            await eventually(lambda: _server(home, first).healthy)
            again = await home.complete(text)

    assert again.headers["x-prefixway-replica"] == first
    assert "l0=0" in again.headers["x-prefixway-matched"]
    assert again.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize("by_us", [True, False])
async def test_a_cache_that_is_emptied_while_idle_is_not_credited(by_us: bool) -> None:
    """Through the gateway, where that is allowed, or past it: before the engine's next step, which would tell."""
    async with house(ids=("a",), options=_options(events=True), allow_routes="/reset_prefix_cache") as home:
        text = _words(random.Random(2), 200)
        await home.complete(text)
        await eventually(home.events_settled)
        (key,) = home.gateway.fellowship.memory.keys()
        published = home.replicas["a"].publisher.next_sequence
        if by_us:
            assert (await home.client.post("/reset_prefix_cache")).json() == {"success": True}
        else:
            async with httpx.AsyncClient(base_url=home.replicas["a"].url, trust_env=False) as engine:
                await engine.post("/reset_prefix_cache")
        await eventually(lambda: home.gateway.fellowship.memory.block_owners() == 0)
        assert home.replicas["a"].publisher.next_sequence == published
        again = await home.complete(text)
        await eventually(home.events_settled)

        assert "l0=0" in again.headers["x-prefixway-matched"]
        assert home.gateway.fellowship.memory.owned(key, Tier.L0) > 0


async def test_the_index_is_bounded_and_says_so() -> None:
    """A bound too small for what the caches hold: /status and /metrics tell what was given up, and all is served."""
    async with house(ids=("a", "b"), options=_options(events=True, blocks=2048), index_memory_mb="0.05") as home:
        budget = home.gateway.fellowship.budget
        assert (await _conversations(home)).hit > 0.3
        await eventually(lambda: budget.given_up["held"] and budget.used_bytes <= 50_000)
        index = (await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/status")).json()["index"]
        metrics = await home.metrics()

    assert index["bytes_limit"] == 50_000
    assert index["given_up"]["held"] > 0
    assert "prefixway_index_bytes_limit 50000.0" in metrics
    assert 'prefixway_index_given_up_total{kind="held"}' in metrics


def _server(home: House, server_id: str) -> Server:
    server = home.gateway.pool.server(server_id)
    assert server is not None
    return server


async def _replicas(home: House) -> list[dict[str, Any]]:
    answer = await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/replicas")
    listed: list[dict[str, Any]] = answer.json()
    return listed
