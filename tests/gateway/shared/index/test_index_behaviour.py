"""What every PrefixIndex does, over the one in memory and those in Redis and Valkey: one suite, so that they agree."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import PrefixIndex
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.gateway.kv.index_model import CHAINS_OF_BLOCKS, KEYS, STEPS, A, B, IndexModel, apply_step
from tests.gateway.shared.index.redis_pair import RedisPair

OTHER = ReplicaKey("n", "a")
GPU = [101, 102, 103, 104]  # blocks of 16 tokens
CHUNKS = [201, 202, 203]  # chunks of 64 tokens
CHAINS = {16: GPU, 64: CHUNKS}
KINDS = ("memory", *FLAVOURS)


@asynccontextmanager
async def index_of(server: RedisServer | None) -> AsyncIterator[PrefixIndex]:
    """An empty one."""
    if server is None:
        yield MemoryIndex()
        return
    server.client().flushall()
    link = RedisLink(RedisTarget.parse(server.url), clock=time.monotonic, budget_s=5.0, timeout_s=10.0)
    try:
        yield RedisPair(link)
    finally:
        await link.close()


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | None]:
    if request.param == "memory":
        yield None
        return
    with RedisServer(request.param) as server:
        yield server


@pytest.fixture
async def index(server: RedisServer | None) -> AsyncIterator[PrefixIndex]:
    async with index_of(server) as made:
        yield made


async def test_a_tier_that_was_never_told_of_is_unknown(index: PrefixIndex) -> None:
    """Nothing held is 0 tokens, nothing known is no number, an unknown replica is absent."""
    index.begin(A, {})
    index.apply(B, Tier.L0, GPU, ())

    assert await index.match(CHAINS, [A, B]) == {A: TierTokens(0, None, None)}


async def test_each_tier_counts_from_the_first_token_in_its_own_blocks(index: PrefixIndex) -> None:
    """L0 alone, L1 alone, and L1 with storage filling its holes."""
    index.begin(A, {})
    index.begin(B, {})
    index.apply(A, Tier.L0, GPU[:3], ())
    index.apply(A, Tier.L1, [CHUNKS[0], CHUNKS[2]], ())
    index.apply(B, Tier.L2, [CHUNKS[1]], ())

    assert await index.match(CHAINS, [A, B]) == {A: TierTokens(48, 64, 192), B: TierTokens(0, None, 0)}


async def test_a_storage_block_is_everybodys_and_goes_for_everybody(index: PrefixIndex) -> None:
    """Whoever announced it; other namespaces know nothing of it."""
    for key in (A, B, OTHER):
        index.begin(key, {})
    index.apply(A, Tier.L2, CHUNKS, ())
    index.apply(B, Tier.L2, CHUNKS[:1], ())
    assert (await index.match(CHAINS, [B]))[B] == TierTokens(0, None, 192)
    assert (await index.match(CHAINS, [OTHER]))[OTHER] == TierTokens(0, None, None)

    index.apply(B, Tier.L2, (), CHUNKS[:1])
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(0, None, 0)

    index.drop(A)
    index.drop(B)
    index.begin(A, {})
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(0, None, None)


async def test_clearing_one_tier_leaves_the_others(index: PrefixIndex) -> None:
    """AllBlocksCleared is about the GPU."""
    for key in (A, B):
        index.begin(key, {})
        index.apply(key, Tier.L0, GPU, ())
        index.apply(key, Tier.L1, CHUNKS, ())

    index.clear(A, Tier.L0)

    assert await index.match(CHAINS, [A, B]) == {A: TierTokens(0, 192, None), B: TierTokens(64, 192, None)}


async def test_a_clear_comes_between_what_was_before_and_what_comes_after(index: PrefixIndex) -> None:
    """Even where all three are written at once."""
    index.begin(A, {})
    index.apply(A, Tier.L0, GPU, ())
    index.clear(A, Tier.L0)
    index.apply(A, Tier.L0, GPU[:1], ())
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(16, None, None)

    index.clear(A, Tier.L0)
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(0, None, None)
    index.apply(A, Tier.L0, GPU[:2], ())
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(32, None, None)


async def test_a_snapshot_replaces_what_was_there(index: PrefixIndex) -> None:
    """Beginning a known key anew holds exactly the snapshot."""
    index.begin(A, {})
    index.apply(A, Tier.L0, GPU, ())
    assert (await index.match(CHAINS, [A]))[A] == TierTokens(64, None, None)

    index.begin(A, {Tier.L0: GPU[:1], Tier.L1: CHUNKS[:2]})

    assert (await index.match(CHAINS, [A]))[A] == TierTokens(16, 128, None)


async def test_a_new_incarnation_owns_nothing_of_the_old_one(index: PrefixIndex) -> None:
    """Begun first, and then the old key is dropped, as an indexer does."""
    index.begin(A, {})
    index.apply(A, Tier.L0, GPU, ())
    assert (await index.match(CHAINS, [A]))[A].l0 == 64
    after = A._replace(incarnation=1)

    index.begin(after, {})
    index.drop(A)
    assert (await index.match(CHAINS, [after]))[after] == TierTokens(0, None, None)

    index.apply(after, Tier.L0, GPU[:1], ())
    assert (await index.match(CHAINS, [after]))[after] == TierTokens(16, None, None)


async def test_a_dropped_replica_is_unknown(index: PrefixIndex) -> None:
    """And what is told of it afterwards is ignored."""
    for key in (A, B):
        index.begin(key, {Tier.L0: GPU})
    assert len(await index.match(CHAINS, [A, B])) == 2

    index.drop(A)
    index.apply(A, Tier.L0, GPU, ())
    index.clear(A, Tier.L0)
    index.drop(A)

    assert await index.match(CHAINS, [A, B]) == {B: TierTokens(64, None, None)}


async def test_long_chains_and_much_of_them(index: PrefixIndex) -> None:
    """More than one command takes, and every length of match."""
    chain = list(range(1 << 63, (1 << 63) + 5000))
    index.begin(A, {})
    index.apply(A, Tier.L0, chain, ())
    for held in (5000, 4999, 2048, 257, 9, 8, 2, 1):
        index.apply(A, Tier.L0, (), chain[held:])
        assert (await index.match({16: chain}, [A]))[A].l0 == 16 * held
    for held in (4097, 1000, 8, 7, 1, 0):
        index.apply(A, Tier.L1, chain[:held] + chain[held + 1 :], chain[held : held + 1])
        assert (await index.match({16: chain}, [A]))[A].a1 == 16 * held


@given(steps=st.lists(STEPS, max_size=40), chains=st.lists(CHAINS_OF_BLOCKS, min_size=1, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_it_answers_as_the_model_does(
    server: RedisServer | None, steps: list[tuple[str, ReplicaKey, Tier, list[int]]], chains: list[list[int]]
) -> None:
    """Random stores, evictions, clears, snapshots and drops.

    L0 stores whole prefixes and evicts whole subtrees, as vLLM does; the other tiers scatter.
    """
    async with index_of(server) as index:
        model = IndexModel()
        for name, key, tier, chain in steps:
            apply_step(index, model, name, key, tier, chain)
            for asked in chains:
                matched = await index.match({1: asked}, KEYS)
                assert matched == {key: tokens for key in KEYS if (tokens := model.match(asked, key)) is not None}
