"""LMCache behind real engines: what its L1 holds is predicted in tokens, and what only its L2 holds is found out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import chain
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.fakes.waiting import eventually
from tests.running_gateway import RunningGateway
from tests.vllm.asking import ask
from tests.vllm.comparison import Comparison
from tests.vllm.conftest import SMALL_BLOCKS
from tests.vllm.event_watch import EventWatch
from tests.vllm.following_gateway import OwnVerdict, following_gateway, one_by_one
from tests.vllm.lmcache_server import CHUNK
from tests.vllm.mixed_work import Conversation, conversations, interleaved, some_text
from tests.vllm.real_replicas import BLOCK_SIZE, RealReplica

#: No adapter: LMCache 0.5.6 does not tell an adapter's blocks from its base model's.
TENANTS = (("tiny", None), ("tiny", "tenant-a"), ("tiny", None), ("tiny", None), ("tiny", "tenant-b"))
CONVERSATIONS, TURNS, OPEN = 15, 5, 5
OVER = 0.01
PROMPT_WORDS = 150  # about 600 tokens


@pytest.fixture(scope="module")
def gateway(lmcache_replicas: list[RealReplica]) -> Iterator[RunningGateway]:
    with following_gateway(lmcache_replicas) as started:
        yield started


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
        yield client


def completion(seed: str, salt: str | None = None) -> Conversation:
    """One that begins with a long text of its own."""
    begun = Conversation("completion", "tiny", salt, Random(seed))
    begun.begin(some_text(Random(f"long {seed}"), PROMPT_WORDS))
    return begun


def fill(replica: RealReplica, tokens: int, seed: str) -> None:
    """Have an engine compute new prompts, of so many tokens together."""
    rng = Random(seed)
    done = 0
    while done < tokens:
        body = {"model": "tiny", "prompt": some_text(rng, PROMPT_WORDS), "max_tokens": 1}
        answer = httpx.post(f"{replica.url}/v1/completions", json=body, trust_env=False, timeout=60)
        done += answer.raise_for_status().json()["usage"]["prompt_tokens"]


async def test_a_prompt_that_left_the_gpu_is_predicted_from_l1(
    client: httpx.AsyncClient, gateway: RunningGateway, lmcache_replicas: list[RealReplica]
) -> None:
    """Its whole chunks, as tokens of L1; the engine loads as many."""
    conversation = completion("leaves")
    with EventWatch(lmcache_replicas) as watch:
        first = await ask(client, conversation.next_turn(), settled=True)
        holder = next(replica for replica in lmcache_replicas if replica.id == first.replica)
        fill(holder, SMALL_BLOCKS * BLOCK_SIZE, "leaves")
        watch.settle(gateway)
        again = await ask(client, conversation.next_turn(), settled=True)

    assert first.prompt is not None
    assert again.replica == first.replica
    assert again.tiers == {"l0": 0, "l1": first.prompt // CHUNK * CHUNK}
    assert again.predicted == again.actual


async def test_a_prompt_that_only_l2_holds_is_found_there_and_nobody_is_distrusted(
    lmcache_replicas: list[RealReplica], lmcache_storage: Path
) -> None:
    """More was cached than events told of: that is counted, and no fault."""
    salt = "told-by-its-files"
    conversation = completion("shared", salt)
    elsewhere, replica = lmcache_replicas
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        body = {"model": "tiny", "prompt": conversation.text, "cache_salt": salt, "max_tokens": 1}
        there = (await client.post(f"{elsewhere.url}/v1/completions", json=body)).raise_for_status().json()
    chunks = there["usage"]["prompt_tokens"] // CHUNK
    await eventually(lambda: len(list(lmcache_storage.glob(f"*@{salt}.data"))) == chunks)
    with following_gateway([replica]) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
            await ask(client, completion("first").next_turn(), settled=True)  # counters are compared from here on
            asked = await ask(client, conversation.next_turn(), settled=True)
        gateway.wait(lambda: OwnVerdict.of(gateway).under_from)  # with the next probe
        own = OwnVerdict.of(gateway)

    assert (asked.predicted, asked.actual) == (0, chunks * CHUNK)
    assert own.under_from == {"external_unspecified": chunks * CHUNK}
    assert (own.trust, own.findings) == ({replica.id: 1.0}, [])


async def test_mixed_work_is_never_predicted_too_high(
    client: httpx.AsyncClient, gateway: RunningGateway, lmcache_replicas: list[RealReplica]
) -> None:
    """L0 and L1 evict all the time; no healthy replica is distrusted."""
    begun = conversations(CONVERSATIONS, seed=2, tenants=TENANTS)
    turns = interleaved(begun, TURNS, seed=2, open_at_once=OPEN)
    returning = (conversation.next_turn() for conversation in begun)  # the first of them left L0 long ago
    with EventWatch(lmcache_replicas) as watch:
        comparison = Comparison(await one_by_one(client, gateway, watch, chain(turns, returning)))
    own = OwnVerdict.of(gateway)
    print(comparison.report("with LMCache"), own, sep="\n")

    assert not comparison.miscounted
    assert comparison.over_tokens <= OVER * comparison.predicted_tokens
    assert any(one.tiers.get("l1") for one in comparison.asked)
    assert (own.miscounted, own.findings) == (0, [])
    assert set(own.trust.values()) == {1.0}
