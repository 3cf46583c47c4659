"""Where requests go, seen at the replicas' own sockets."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest

from gateway.fleet.outcome import Outcome
from gateway.prompt.inference_request import InferenceRequest
from loadtest.replica import ReplicaOptions, Speeds
from tests.end_to_end.house import House, house
from tests.fakes.waiting import eventually


def _words(seed: int, count: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(100_000)}" for _ in range(count))


async def _hold_prefixes(home: House, replicas: int) -> dict[str, str]:
    """Give prompts holders until so many replicas hold some: text -> replica id."""
    holders: dict[str, str] = {}
    while len(set(holders.values())) < replicas:
        text = _words(len(holders), 120)
        answer = await home.complete(text)
        holders[text] = answer.headers["x-prefixway-replica"]
    await eventually(home.events_settled)
    return holders


@pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware"])
async def test_follow_ups_go_to_the_holder(strategy: str) -> None:
    """After three replicas hold different prefixes, 100 of 100 follow-ups reach their holder, as the receipt says."""
    async with house(strategy=strategy) as home:
        holders = await _hold_prefixes(home, 3)
        for number in range(100):
            text, holder = random.Random(number).choice(list(holders.items()))
            answer = await home.complete(f"{text} {number}")
            usage = answer.json()["usage"]
            matched = dict(part.split("=") for part in answer.headers["x-prefixway-matched"].split(","))
            assert answer.headers["x-prefixway-replica"] == holder
            assert answer.headers["x-prefixway-reason"] == "prefix"
            assert answer.headers["x-prefixway-strategy"] == strategy
            assert int(matched["prompt"]) == usage["prompt_tokens"]
            assert int(matched["l0"]) == usage["prompt_tokens_details"]["cached_tokens"] > 0


@pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware"])
async def test_an_overloaded_holder_is_left(strategy: str) -> None:
    """Idle it gets its follow-ups; while it has long prompts to prefill they go elsewhere, and say why."""
    async with house(strategy=strategy) as home:
        ((text, holder),) = (await _hold_prefixes(home, 1)).items()
        router, others = home.gateway.router, frozenset({"a", "b", "c"} - {holder})
        body = json.dumps({"model": "simulated", "prompt": _words(99, 2000), "stream": True}).encode()
        long = await router.prepare(InferenceRequest.parse("completions", body))
        idle = await home.complete(f"{text} first")
        queued = [router.attempt(long, others) for _ in range(5)]
        busy = await home.complete(f"{text} second")
        for attempt in queued:
            attempt.end(Outcome.CLIENT_GONE)

    assert (idle.headers["x-prefixway-replica"], idle.headers["x-prefixway-reason"]) == (holder, "prefix")
    assert busy.headers["x-prefixway-replica"] != holder
    assert busy.headers["x-prefixway-reason"] == "spill"


@pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware"])
async def test_a_shared_system_prompt_does_not_gather_on_one_replica(strategy: str) -> None:
    """300 requests that share only their system prompt are spread: none has more than half of them."""
    system = _words(7, 250)
    slow = ReplicaOptions(speeds=Speeds(prefill_tokens_per_s=20_000))
    async with house(options=slow, strategy=strategy) as home:
        gate = asyncio.Semaphore(40)

        async def one(number: int) -> str:
            async with gate:
                answer = await home.chat(_words(number, 30), system=system, max_tokens=2)
                replica: str = answer.raise_for_status().headers["x-prefixway-replica"]
                return replica

        counts = Counter(await asyncio.gather(*(one(number) for number in range(300))))

    assert set(counts) == {"a", "b", "c"}
    assert max(counts.values()) < 150, counts


async def test_prompts_under_one_block_spread_evenly(strategy: str) -> None:
    """180 prompts too short to be cached reach each of three replicas about 60 times, one after the other."""
    async with house(strategy=strategy) as home:
        for number in range(180):
            (await home.complete(f"hi {number}", max_tokens=1)).raise_for_status()
        served = home.served()

    assert all(30 <= count <= 90 for count in served.values()), served


@pytest.mark.parametrize(("strategy", "requests"), [("kv_aware", 8), ("prefix_aware", 5)])
async def test_a_burst_of_one_new_prefix_stays_together(strategy: str, requests: int) -> None:
    """Requests at once with one new long prefix go to one replica, before any event told of it. Of a larger burst some
    would be as well off elsewhere.
    """
    text = _words(3, 800)
    slow = ReplicaOptions(speeds=Speeds(prefill_tokens_per_s=4_000))
    async with house(options=slow, strategy=strategy) as home:
        answers = await asyncio.gather(*(home.complete(f"{text} {number}", max_tokens=1) for number in range(requests)))

    assert len({answer.headers["x-prefixway-replica"] for answer in answers}) == 1


async def test_replicas_without_events_are_known_by_what_was_sent_there() -> None:
    """No event, no metric of a cache: follow-ups still reach the replica that served the prefix."""
    silent = ReplicaOptions(kv_events=False, lists_event_sources=False, speeds=Speeds(prefill_tokens_per_s=100_000))
    async with house(options=silent, strategy="prefix_aware") as home:
        text = _words(5, 200)
        first = await home.complete(text)
        answers = [await home.complete(f"{text} {number}") for number in range(20)]

    assert {a.headers["x-prefixway-replica"] for a in answers} == {first.headers["x-prefixway-replica"]}


async def test_a_salt_is_another_cache() -> None:
    """The same prompt under another cache_salt matches nothing, under the same salt everything."""
    async with house() as home:
        text = _words(6, 200)
        await home.complete(text, cache_salt="s1")
        await eventually(home.events_settled)
        other = await home.complete(text, cache_salt="s2")
        await eventually(home.events_settled)
        same = await home.complete(text, cache_salt="s1")

    assert other.headers["x-prefixway-matched"].endswith("l0=0")
    assert int(same.headers["x-prefixway-matched"].rpartition("l0=")[2]) > 300


async def test_a_restarted_replica_is_not_believed_to_hold_anything() -> None:
    """After an engine process is replaced, its blocks are forgotten before the next prompt is matched."""
    async with house(ids=["a"]) as home:
        text = _words(8, 200)
        await home.complete(text)
        await eventually(home.events_settled)
        await home.replicas["a"].restart()
        await eventually(lambda: next(iter(home.gateway.pool.replicas)).key.incarnation == 1)
        await eventually(lambda: next(iter(home.gateway.pool.servers)).healthy)
        answer = await home.complete(text)

    assert answer.headers["x-prefixway-matched"].endswith("l0=0")
    assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_rotation_reads_no_prompts_unless_it_is_told_to() -> None:
    """Nothing is said of the prompt then; if prompts are read all the same, it is what the replica counts."""
    async with house(["a", "b"], strategy="round_robin") as home:
        unread = await home.complete(_words(1, 50))
    async with house(["a", "b"], strategy="round_robin", read_prompts="always") as home:
        read = await home.complete(_words(1, 50))

    assert unread.headers["x-prefixway-reason"] == read.headers["x-prefixway-reason"] == "rotation"
    assert "x-prefixway-matched" not in unread.headers
    assert read.headers["x-prefixway-matched"].startswith(f"prompt={read.json()['usage']['prompt_tokens']}")
