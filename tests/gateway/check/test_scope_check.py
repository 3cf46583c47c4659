"""Salted prompts, and those of adapters, in events that tell them apart and in events that do not."""

from __future__ import annotations

from gateway.check.scope_check import ScopeCheck
from gateway.fleet.load_report import LoadReport
from loadtest.replica import ReplicaOptions
from tests.gateway.check.proving import FAST, Proving, proving, words

ADAPTERS = ReplicaOptions(speeds=FAST, loras=("ada", "bob"))


async def _check(proven: Proving, deadline_s: float = 5.0) -> dict[str, str]:
    check = ScopeCheck(proven.knowledge, proven.caller, deadline_s=deadline_s)
    return words([verdict async for verdict in check.check(proven.replicas["a"])])


async def test_events_that_tell_them_apart_are_fine() -> None:
    async with proving(ADAPTERS) as proven:
        assert await _check(proven) == {"salt": "ok", "lora ada": "ok", "lora bob": "ok"}


async def test_a_salt_that_events_leave_out_is_told_at_once() -> None:
    async with proving() as proven:
        proven.sims["a"].silent.drops_extra_keys = True

        assert await _check(proven, deadline_s=60.0) == {"salt": "salt_dropped"}


async def test_a_salt_that_the_engine_ignores_too() -> None:
    async with proving() as proven:
        proven.sims["a"].silent.ignores_salt = True

        assert await _check(proven, deadline_s=60.0) == {"salt": "salt_dropped"}


async def test_adapters_under_each_others_names_are_told_at_once() -> None:
    async with proving(ADAPTERS) as proven:
        proven.sims["a"].silent.lora_of_events = "bob"

        assert await _check(proven, deadline_s=60.0) == {"salt": "ok", "lora ada": "lora_differs", "lora bob": "ok"}


async def test_what_is_told_under_no_name_is_told_after_a_while() -> None:
    async with proving(ADAPTERS) as proven:
        proven.sims["a"].silent.lora_of_events = "nobody"

        assert (await _check(proven, deadline_s=0.3))["lora ada"] == "lora_differs"


async def test_a_busy_or_silent_replica_is_not_judged() -> None:
    async with proving(probe_interval_s="60") as proven:
        proven.replicas["a"].report = LoadReport(waiting=1.0)
        check = ScopeCheck(proven.impatient, proven.caller)
        assert words([verdict async for verdict in check.check(proven.replicas["a"])]) == {"salt": "skipped"}
        proven.replicas["a"].report = LoadReport()
        await proven.sims["a"].refuse()
        assert await _check(proven) == {"salt": "skipped"}
