"""Continuous batching, driven by hand: no clock, no waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replica.block_cache import BlockCache
from loadtest.replica.chunk_store import ChunkStore, SharedStorage
from loadtest.replica.kv_events import BlockStored, KVEvent
from loadtest.replica.scheduler import Generation, Scheduler, Speeds
from tests.fakes.waiting import eventually

BLOCK = 4
FAST = Speeds(time_scale=0.0, chunk_tokens=8, max_running=2)


class Bench:
    """A scheduler, and what it published."""

    def __init__(self, capacity_blocks: int = 32, speeds: Speeds = FAST, chunks: ChunkStore | None = None) -> None:
        self.batches: list[Sequence[KVEvent]] = []
        self.cache = BlockCache(capacity_blocks, BLOCK)
        self.scheduler = Scheduler(self.cache, speeds, self.batches.append, chunks)

    def step(self) -> list[tuple[Generation, int]]:
        shares = self.scheduler.schedule()
        self.scheduler.complete(shares, now=0.0)
        return shares

    def step_until_idle(self) -> int:
        steps = 0
        while self.scheduler.running or self.scheduler.waiting:
            self.step()
            steps += 1
        return steps


def request(prompt: int, answer: int, first: int = 0) -> Generation:
    return Generation(prompt=range(first, first + prompt), answer=range(1000, 1000 + answer))


def produced(generation: Generation) -> list[int | None]:
    return [generation.outbox.get_nowait() for _ in range(generation.outbox.qsize())]


async def test_prefills_in_chunks_then_decodes_one_token_a_step() -> None:
    """20 tokens at 8 a step are three steps; the third gives the first token."""
    bench, generation = Bench(), request(20, 2)
    bench.scheduler.submit(generation, now=0.0)

    computed = []
    while not generation.is_done:
        (share,) = bench.step()
        computed.append((share[1], generation.generated))

    assert computed == [(8, 0), (8, 0), (4, 1), (1, 2)]
    assert produced(generation) == [1000, 1001, None]


async def test_each_steps_events_are_one_batch() -> None:
    """Blocks are published by the step that computed them, decoded ones too."""
    bench = Bench()
    bench.scheduler.submit(request(10, 4), now=0.0)
    bench.step_until_idle()

    stored = [[e.token_ids[0] for e in batch if isinstance(e, BlockStored)] for batch in bench.batches if batch]
    assert stored == [[0], [8]]


async def test_running_requests_come_before_waiting_ones() -> None:
    """The budget goes to those that run; at most ``max_running`` do."""
    bench = Bench()
    first, second, third = (request(3, 3, first) for first in (0, 100, 200))
    for generation in (first, second, third):
        bench.scheduler.submit(generation, now=0.0)

    assert [share[0] for share in bench.step()] == [first, second]
    assert (bench.scheduler.running, bench.scheduler.waiting) == (2, 1)
    assert [share[1] for share in bench.step()] == [1, 1]
    bench.step()
    assert [share[0] for share in bench.step()] == [third]


async def test_cached_tokens_are_those_found_at_admission() -> None:
    """A follow-up computes only what is new, and says how much it found."""
    bench = Bench()
    bench.scheduler.submit(request(9, 1), now=0.0)
    bench.step_until_idle()
    follow_up = request(13, 1)
    bench.scheduler.submit(follow_up, now=0.0)

    assert [share[1] for share in bench.step()] == [5]
    assert follow_up.cached_tokens == 8
    assert (bench.scheduler.stats.queried_tokens, bench.scheduler.stats.hit_tokens) == (22, 8)


async def test_an_aborted_request_leaves_its_blocks_cached_and_free() -> None:
    """Wherever it is: waiting, running, or in the step that is being computed."""
    bench = Bench()
    running, waiting = request(9, 5), request(40, 1, 100)
    for generation in (running, waiting):
        bench.scheduler.submit(generation, now=0.0)
    shares = bench.scheduler.schedule()
    bench.scheduler.abort(running)
    bench.scheduler.abort(waiting)
    bench.scheduler.abort(waiting)
    bench.scheduler.complete(shares, now=0.0)

    assert (bench.scheduler.running, bench.scheduler.waiting, bench.cache.used_blocks) == (0, 0, 0)
    assert produced(running) == []
    assert bench.cache.resident_prefixes()


async def test_preempts_the_youngest_and_gives_it_back_later() -> None:
    """Two answers that outgrow the cache together both end, the second after a preemption."""
    bench = Bench(capacity_blocks=6)
    first, second = request(8, 12), request(8, 12, 100)
    for generation in (first, second):
        bench.scheduler.submit(generation, now=0.0)
    bench.step_until_idle()

    assert bench.scheduler.stats.preemptions > 0
    assert produced(first) == produced(second) == [*range(1000, 1012), None]
    assert second.cached_tokens == 0


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 10), st.integers(0, 2)), max_size=12), st.data())
def test_every_request_ends_and_frees_its_blocks(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Whatever arrives and whoever leaves early: no block stays in use, every answer is whole."""
    bench = Bench(capacity_blocks=10)
    generations = [request(prompt, answer, 100 * family) for prompt, answer, family in rows]
    aborted: set[int] = set()
    for number, generation in enumerate(generations):
        bench.scheduler.submit(generation, now=0.0)
        bench.step()
        if data.draw(st.booleans()):
            victim = data.draw(st.integers(0, number))
            bench.scheduler.abort(generations[victim])
            aborted.add(victim)
    bench.step_until_idle()

    assert bench.cache.used_blocks == 0
    for number, generation in enumerate(generations):
        if number not in aborted:
            assert produced(generation) == [*generation.answer, None]


def test_a_longer_context_costs_more() -> None:
    """The formula: tokens over rate, doubled at the attention length, plus the step's own time."""
    speeds = Speeds(prefill_tokens_per_s=100, attention_tokens=1000, step_s=0.5, sequence_s=0.1, context_token_s=0.001)
    scheduler = Scheduler(BlockCache(1, 1), speeds, lambda _: None)
    prefilling, decoding = request(1000, 1), request(10, 5)
    decoding.computed = 14

    assert speeds.prefill_s(950, 100) == pytest.approx(2.0)
    assert scheduler.step_s([(prefilling, 100)]) == pytest.approx(0.5 + 0.1 + 1.05)
    assert scheduler.step_s([(decoding, 1)]) == pytest.approx(0.5 + 0.1 + 0.014)


async def test_generate_yields_as_it_steps_and_leaving_aborts() -> None:
    """The loop runs while there is work; a consumer that leaves frees its request's blocks."""
    bench = Bench()
    stepping = asyncio.get_running_loop().create_task(bench.scheduler.run())
    assert [token async for token in bench.scheduler.generate(request(5, 3))] == [1000, 1001, 1002]

    async with aclosing(bench.scheduler.generate(request(5, 1000, 100))) as tokens:
        assert await anext(tokens) == 1000
    await eventually(lambda: bench.scheduler.running == 0)

    assert bench.cache.used_blocks == 0
    assert bench.scheduler.stats.finished == {"stop": 0, "length": 1}
    stepping.cancel()
    await asyncio.gather(stepping, return_exceptions=True)


async def test_what_lies_beside_the_gpu_is_loaded_instead_of_computed() -> None:
    """Another engine's chunks: they count as cached, take their time once, and are the GPU's from then on."""
    storage = SharedStorage()
    speeds = Speeds(chunk_tokens=100, step_s=0.0, sequence_s=0.0, l1_tokens_per_s=4, l2_tokens_per_s=2, l2_fixed_s=5)
    first, second = (
        Bench(speeds=speeds, chunks=ChunkStore(host_chunks=hosts, storage=storage, chunk_tokens=8)) for hosts in (0, 2)
    )
    first.scheduler.submit(request(30, 1), now=0.0)
    first.step_until_idle()
    loaded, again = request(30, 2), request(30, 1)
    second.scheduler.submit(loaded, now=0.0)
    shares = second.scheduler.schedule()
    loading_s = second.scheduler.step_s(shares) - speeds.prefill_s(24, 6)
    second.scheduler.complete(shares, now=0.0)
    decoding_s = second.scheduler.step_s(second.scheduler.schedule())
    second.scheduler.abort(loaded)
    second.cache.lose()
    second.scheduler.submit(again, now=0.0)
    shares = second.scheduler.schedule()
    reloading_s = second.scheduler.step_s(shares) - speeds.prefill_s(24, 6)
    second.scheduler.complete(shares, now=0.0)

    assert (loaded.cached_tokens, again.cached_tokens) == (24, 24)
    assert loading_s == pytest.approx(5 + 24 / 2)
    assert decoding_s < 0.01
    assert reloading_s == pytest.approx(16 / 4 + 5 + 8 / 2)
    stats = second.scheduler.stats
    assert (stats.host_tokens, stats.storage_tokens, stats.hit_tokens) == (16, 32, 0)
    media = [e.medium for batch in second.batches[:2] for e in batch if isinstance(e, BlockStored)]
    assert media == ["GPU", "cpu", "cpu", "cpu"]
