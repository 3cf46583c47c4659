"""What a replica is said to hold: there, gone at once and untold, and never told to have gone."""

from __future__ import annotations

from gateway.check.holding_check import check_holding, overfull
from gateway.fleet.load_report import LoadReport
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, Proving, proving


async def _check(proven: Proving) -> str:
    return (await check_holding(proven.replicas["a"], proven.knowledge, proven.caller)).word


async def _fill(proven: Proving, prompts: int, first: int = 0) -> None:
    """Have prompts of five blocks computed, each another, and their events applied."""
    replica, publisher = proven.replicas["a"], proven.sims["a"].publisher
    for number in range(first, first + prompts):
        ids = [300 + number % 500, 301 + number // 500, *range(400, 478), 5]
        await proven.caller.complete(replica, "simulated", ids)
    stats = proven.knowledge.stats(replica)
    assert stats is not None
    await eventually(lambda: stats.last_sequence == publisher.next_sequence - 1 and stats.last_sequence >= 0)


async def test_what_is_there_is_found() -> None:
    async with proving() as proven:
        assert await _check(proven) == "skipped"  # nothing to try
        await _fill(proven, 4)
        assert await _check(proven) == "ok"


async def test_what_went_without_a_word_is_missed_and_believed_no_more_once_disproved() -> None:
    async with proving() as proven:
        await _fill(proven, 4)
        proven.sims["a"].cache.lose()
        assert await _check(proven) == "restart_unnoticed"

        proven.sims["a"].cache.lose()
        proven.knowledge.events.indexer.disprove(proven.replicas["a"].key, "vanished")

        assert await _check(proven) == "skipped"


async def test_a_loss_is_noticed_though_some_of_it_was_computed_anew_meanwhile() -> None:
    async with proving() as proven:
        await _fill(proven, 4)
        sim = proven.sims["a"]
        sim.cache.lose()
        sim.silent.mutes_events = True  # of that no event has come yet
        await _fill(proven, 1)
        sim.silent.mutes_events = False

        assert await _check(proven) == "restart_unnoticed"


async def test_evictions_that_are_not_told_are_no_restart_where_old_prompts_are_used_again_and_again() -> None:
    """What was stored lately is evicted early, then."""
    async with proving(ReplicaOptions(speeds=FAST, capacity_blocks=40)) as proven:
        proven.sims["a"].silent.drops_removals = True
        await _fill(proven, 4)
        for first in range(20, 32):
            await _fill(proven, 1, first)
            await _fill(proven, 4)

        assert await _check(proven) == "removals_lost"


async def test_evictions_that_are_told_are_fine_however_many() -> None:
    async with proving(ReplicaOptions(speeds=FAST, capacity_blocks=40)) as proven:
        await _fill(proven, 20)

        assert overfull(proven.replicas["a"], proven.knowledge) == ""
        assert await _check(proven) == "ok"


async def test_evictions_that_are_not_told_are_missed_once_more_is_said_to_be_held_than_fits() -> None:
    async with proving(ReplicaOptions(speeds=FAST, capacity_blocks=40)) as proven:
        proven.sims["a"].silent.drops_removals = True
        await _fill(proven, 20)

        assert overfull(proven.replicas["a"], proven.knowledge) == "said to hold 1600 tokens, has room for 640"
        assert await _check(proven) == "removals_lost"


async def test_too_much_with_evictions_told_of_means_that_all_was_gone_before() -> None:
    async with proving(ReplicaOptions(speeds=FAST, capacity_blocks=40)) as proven:
        await _fill(proven, 6)
        proven.sims["a"].cache.lose()
        await _fill(proven, 12, first=20)

        assert await _check(proven) == "restart_unnoticed"


async def test_a_busy_replica_or_one_without_details_is_not_tried() -> None:
    async with proving(ReplicaOptions(speeds=FAST, prompt_tokens_details=False), probe_interval_s="60") as proven:
        await _fill(proven, 2)
        assert await _check(proven) == "skipped"
        proven.replicas["a"].report = LoadReport(waiting=1.0)
        assert (await check_holding(proven.replicas["a"], proven.impatient, proven.caller)).word == "skipped"


async def test_without_events_or_a_replica_nothing_is_said() -> None:
    async with proving(kv_events="off") as proven:
        assert await _check(proven) == "skipped"
    async with proving() as proven:
        await _fill(proven, 2)
        await proven.sims["a"].refuse()
        checked = await check_holding(proven.replicas["a"], proven.knowledge, proven.caller, timeout_s=0.1)
        assert checked.word == "skipped"
