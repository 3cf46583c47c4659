"""The load client, against simulated replicas."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.closed_loop import ClosedLoop, percentile, read_stream
from loadtest.replica import Fault
from loadtest.workload import Dialogue, Turn, Workload
from tests.loadtest.replica.running import MODEL, running

QUICK = Workload(dialogues=4, turns=3, assistants=2, system_words=40, turn_words=(10, 20), think_s=(0, 0))


async def test_plays_each_conversation_to_its_end() -> None:
    """Every turn is a sample; each turn's prompt holds the one before, answer and all, and finds it cached."""
    async with running() as (replica, _):
        load = ClosedLoop(replica.url, MODEL)
        await load.run(QUICK.generate(replica.folder.words, 1))

        assert sorted((sample.dialogue, sample.turn) for sample in load.samples) == [
            (f"dialogue-{dialogue}", turn) for dialogue in range(4) for turn in range(3)
        ]
        assert not [sample.error for sample in load.samples if sample.error]
        assert all(0 < sample.ttft_s <= sample.total_s for sample in load.samples)
        stats = replica.scheduler.stats
        assert sum(sample.prompt_tokens for sample in load.samples) == stats.prompt_tokens
        assert sum(sample.cached_tokens for sample in load.samples) == stats.hit_tokens
        turns = {(sample.dialogue, sample.turn): sample for sample in load.samples}
        for (dialogue, turn), sample in turns.items():
            if turn:
                assert sample.cached_tokens >= turns[dialogue, turn - 1].prompt_tokens // 16 * 16
        assert load.in_flight == 0


async def test_turns_go_to_random_ones_of_several_servers() -> None:
    """With the same seed to the same ones, with another to others."""
    dialogues = [Dialogue(f"d{number}", "system", (Turn(f"text {number}", 0, 1),) * 2) for number in range(8)]

    async def first_servers_requests(seed: int) -> list[bytes]:
        async with running() as (one, _), running() as (two, _):
            load = ClosedLoop([one.url, two.url], MODEL, seed=seed)
            await load.run(dialogues)
            assert [sample.error for sample in load.samples] == [""] * 16
            assert len(one.requests) + len(two.requests) == 16
            return sorted(request.body.partition(b'"assistant"')[0] for request in one.requests)

    first, again, other = [await first_servers_requests(seed) for seed in (1, 1, 2)]

    assert 0 < len(first) < 16
    assert first == again != other


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=503), "status 503"),
        (Fault(die_after_chunks=2), "ReadError"),
        (Fault(die_after_chunks=2, reset=False), "RemoteProtocolError"),
    ],
)
async def test_an_answer_that_fails_is_a_sample_with_its_error(fault: Fault, error: str) -> None:
    """And the conversation goes on."""
    dialogue = Dialogue("d", "system", (Turn("one", 0, 4), Turn("two", 0, 4)))
    async with running() as (replica, _):
        replica.faults.add(fault)
        load = ClosedLoop(replica.url, MODEL)
        await load.run([dialogue])

    assert [sample.error for sample in load.samples] == [error, ""]


@given(st.binary(max_size=60))
def test_reads_any_bytes_or_says_that_they_are_no_stream(data: bytes) -> None:
    """A ValueError at worst."""
    for stream in (data, b"data: " + data, b"data: {}\n\n" + data):
        with suppress(ValueError):
            read_stream(stream)


def test_percentiles_are_values_that_occurred() -> None:
    """And 0 where nothing did."""
    assert [percentile(range(10), share) for share in (0, 0.5, 0.9, 1)] == [0, 5, 9, 9]
    assert percentile([], 0.5) == 0
