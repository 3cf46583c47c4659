"""A replica's events, healthy and broken in every way that a probe can tell apart."""

from __future__ import annotations

from random import Random

from gateway.check.event_check import EventCheck
from gateway.check.replica_caller import ReplicaCaller
from gateway.check.verdict import Verdict
from gateway.fleet.load_report import LoadReport
from gateway.kv.trust import FeedState
from loadtest.replica import Fault, ReplicaOptions
from tests.fakes.background import running
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, Proving, proving, words

ONE = ReplicaOptions(speeds=FAST)


async def _check(proven: Proving, name: str = "a", deadline_s: float = 0.3) -> list[Verdict]:
    check = EventCheck(proven.knowledge, proven.caller, deadline_s=deadline_s)
    return [verdict async for verdict in check.check(proven.replicas[name])]


async def test_a_healthy_replica_tells_of_a_probe_and_finds_it_again() -> None:
    async with proving(ONE, ONE) as proven:
        assert words(await _check(proven, deadline_s=5.0)) == {"usage": "ok", "reuse": "ok", "events": "ok"}


async def test_each_rank_is_probed_by_itself() -> None:
    async with proving(ReplicaOptions(speeds=FAST, ranks=2)) as proven:
        for name in ("a", "a#1"):
            assert words(await _check(proven, name, deadline_s=5.0))["events"] == "ok"


async def test_a_replica_with_waiting_requests_is_left_alone() -> None:
    async with proving(ONE, probe_interval_s="60") as proven:
        proven.replicas["a"].report = LoadReport(waiting=3.0)
        before = len(proven.sims["a"].requests)

        check = EventCheck(proven.impatient, proven.caller)
        found = words([verdict async for verdict in check.check(proven.replicas["a"])])
        assert set(found.values()) == {"skipped"}
        assert len(proven.sims["a"].requests) == before


async def test_a_replica_that_generates_nothing_is_told_unless_it_is_only_slow() -> None:
    async with proving(ONE, probe_interval_s="60") as proven, ReplicaCaller(timeout_s=0.05) as impatient:
        check, sim = EventCheck(proven.knowledge, impatient), proven.sims["a"]
        sim.faults.always = Fault(status=500)
        assert words([v async for v in check.check(proven.replicas["a"])]) == {"events": "unreachable"}
        sim.faults.always = Fault(stall_before_head=True)
        assert words([v async for v in check.check(proven.replicas["a"])]) == {"events": "unreachable"}
        proven.replicas["a"].report = LoadReport(running=1.0)
        assert words([v async for v in check.check(proven.replicas["a"])]) == {"events": "skipped"}


async def test_usage_without_details_is_told() -> None:
    async with proving(ReplicaOptions(speeds=FAST, prompt_tokens_details=False)) as proven:
        found = words(await _check(proven, deadline_s=5.0))

        assert found == {"usage": "details_off", "reuse": "skipped", "events": "ok"}


async def test_a_replica_that_keeps_nothing_is_told_and_its_silence_explained() -> None:
    async with proving(ONE, probe_interval_s="60") as proven:
        proven.sims["a"].silent.caches = False
        found = words(await _check(proven))

        assert found["reuse"] == "prefix_caching_off"


async def test_events_that_never_come_are_told() -> None:
    async with proving(ONE, ONE) as proven:
        proven.sims["a"].silent.mutes_events = True

        assert words(await _check(proven))["events"] == "events_silent"


async def test_a_replica_without_events_is_told_unless_none_are_wanted() -> None:
    silent = ReplicaOptions(speeds=FAST, kv_events=False)
    async with proving(silent) as proven:
        assert words(await _check(proven))["events"] == "events_off"
    async with proving(silent, kv_events="off") as proven:
        assert words(await _check(proven))["events"] == "skipped"


async def test_a_source_that_nobody_listens_on_is_told() -> None:
    nobody = "tcp://127.0.0.1:1"
    hidden = ReplicaOptions(speeds=FAST, lists_event_sources=False)
    async with proving(hidden, settled=False, kv_events=nobody) as proven:
        await eventually(lambda: "a" in proven.replicas)
        verdict = next(v for v in await _check(proven) if v.check == "events")

        assert verdict.word == "events_silent"
        assert nobody in verdict.detail


async def test_the_events_of_another_replica_are_told() -> None:
    async with proving(ONE, ONE) as proven:
        await _swap(proven, proven.sims["a"].publisher.endpoint)
        verdict = next(v for v in await _check(proven, "b") if v.check == "events")

        assert verdict.word == "events_of_another"
        assert "what a was sent" in verdict.detail


async def test_they_are_told_when_the_other_is_checked_too() -> None:
    """By another address of the same publisher."""
    async with proving(ONE, ONE) as proven:
        await _swap(proven, proven.sims["a"].publisher.endpoint.replace("127.0.0.1", "localhost"))
        found = [v.finding for v in await _check(proven, "a", deadline_s=5.0) if v.finding is not None]

        assert [(finding.name, finding.replica_id) for finding in found] == [("events_of_another", "b")]


async def _swap(proven: Proving, endpoint: str) -> None:
    """Let b claim to publish at a's ``endpoint``, and wait until that is believed."""
    a, b = proven.sims["a"], proven.sims["b"]
    b.silent.lists_events_of = (endpoint, a.publisher.replay_endpoint)
    followable = proven.knowledge.events
    await eventually(lambda: followable.followable[proven.replicas["b"].key].endpoint == endpoint)
    await eventually(lambda: all(map(proven.run.is_settled, proven.run.pool.servers)))


async def test_events_that_come_late_are_told_as_late_and_not_as_lost() -> None:
    async with proving(ONE) as proven:
        proven.sims["a"].silent.delays_events_s = 1.0
        check = EventCheck(proven.knowledge, proven.caller, deadline_s=20.0, late_s=0.001)

        assert words([verdict async for verdict in check.check(proven.replicas["a"])])["events"] == "events_late"


async def test_events_much_later_than_a_check_waits_are_not_taken_for_anothers() -> None:
    """Batches come all the time, of what was sent long before."""
    async with proving(ONE) as proven:
        replica, stats = proven.replicas["a"], proven.knowledge.stats(proven.replicas["a"])
        assert stats is not None

        async def talk() -> None:
            rng = Random(1)
            for _ in range(5000):
                await proven.caller.complete(replica, "simulated", rng.choices(range(300), k=40))

        async with running(talk()):
            await eventually(lambda: stats.batches > 3)
            proven.sims["a"].silent.delays_events_s = 2.0
            await eventually(lambda: stats.late_s > 1.5)
            check = EventCheck(proven.knowledge, proven.caller, deadline_s=0.3)

            assert words([verdict async for verdict in check.check(replica)])["events"] == "events_late"


async def test_events_that_wait_for_a_replay_are_neither_lost_nor_late() -> None:
    async with proving(ONE) as proven:
        stats = proven.knowledge.stats(proven.replicas["a"])
        assert stats is not None
        proven.sims["a"].silent.mutes_events = True
        stats.state = FeedState.SUSPECT

        assert words(await _check(proven))["events"] == "skipped"


async def test_a_replica_that_answers_nothing_is_not_judged() -> None:
    async with proving(ONE) as proven:
        await proven.sims["a"].refuse()

        assert words(await _check(proven)) == {"events": "skipped"}
