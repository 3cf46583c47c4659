"""All checks of one replica: in order, within a time, of one engine process."""

from __future__ import annotations

import asyncio
from random import Random

from gateway.check.replica_checks import ReplicaChecks
from loadtest.replica import Fault, ReplicaOptions
from tests.fakes.background import running
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, proving, words


async def test_a_healthy_replica_passes_all_of_them() -> None:
    async with proving(ReplicaOptions(speeds=FAST, loras=("ada",))) as proven:
        checks = ReplicaChecks(proven.knowledge, proven.caller)
        await checks.check(proven.replicas["a"])
        found = words(await checks.check(proven.replicas["a"]))

        expected = ["reachable", "model", "metrics", "tokenizer", "template", "holding", "usage", "reuse", "events"]
        assert list(found) == [*expected, "salt", "lora ada", "block_size", "replay"]
        assert set(found.values()) == {"ok"}


async def test_what_hangs_is_left_after_a_time() -> None:
    async with proving() as proven:
        proven.sims["a"].faults.always = Fault(stall_before_head=True)
        found = words(await ReplicaChecks(proven.knowledge, proven.caller, timeout_s=0.5).check(proven.replicas["a"]))

        assert found["the rest"] == "skipped"
        assert found["reachable"] == "ok"
        proven.sims["a"].faults.clear()


async def test_of_a_replica_that_restarts_meanwhile_nothing_is_said() -> None:
    async with proving() as proven:
        replica, sim = proven.replicas["a"], proven.sims["a"]
        key, stats = replica.key, proven.knowledge.stats(replica)
        await proven.caller.complete(replica, "simulated", [*range(300, 340)])
        await eventually(lambda: stats is not None and stats.last_sequence >= 0)
        sim.faults.always = Fault(stall_before_head=True)
        checking = asyncio.ensure_future(ReplicaChecks(proven.knowledge, proven.caller).check(replica))
        await eventually(lambda: sim.faults.stalled)
        await sim.restart()
        await eventually(lambda: replica.key != key)
        sim.faults.clear()

        assert words(await checking) == {"all": "skipped"}


async def test_events_that_are_anothers_say_nothing_of_what_is_held() -> None:
    one = ReplicaOptions(speeds=FAST)
    async with proving(one, one) as proven:
        a, b = proven.sims["a"].publisher, proven.replicas["b"]
        proven.sims["b"].silent.lists_events_of = (a.endpoint, a.replay_endpoint)
        followable = proven.knowledge.events
        await eventually(lambda: followable.followable[b.key].endpoint == a.endpoint)
        await eventually(lambda: proven.run.is_settled(b.server))
        await proven.caller.complete(proven.replicas["a"], "simulated", [*range(300, 400)])
        checks = ReplicaChecks(proven.knowledge, proven.caller, event_deadline_s=0.3)
        found = words(await checks.check(b))

        assert found["events"] == "events_of_another"
        assert found["holding"] == "skipped"


async def test_a_replay_that_contradicts_the_events_is_named() -> None:
    """The port is another engine's: each batch that comes seems to be that of a new process."""
    one = ReplicaOptions(speeds=FAST)
    async with proving(one, one) as proven:
        a, b, replica = proven.sims["a"].publisher, proven.sims["b"], proven.replicas["b"]

        async def talk() -> None:
            """So that batches come all the time, most of them from the other one."""
            rng = Random(1)
            for _ in range(5000):
                for name in ("a", "a", "b"):
                    await proven.caller.complete(proven.replicas[name], "simulated", rng.choices(range(300), k=40))

        async with running(talk()):
            await eventually(lambda: min(a.next_sequence, b.publisher.next_sequence) > 5)
            b.silent.lists_events_of = (b.publisher.endpoint, a.replay_endpoint)
            await eventually(lambda: replica.key.incarnation > 2)
            found = words(await ReplicaChecks(proven.knowledge, proven.caller, event_deadline_s=1.0).check(replica))

        assert found == {"replay": "replay_stale"}
