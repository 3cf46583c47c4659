"""A replay that answers with what was published, with something else, and not at all."""

from __future__ import annotations

from gateway.check.replay_check import check_replay
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, Proving, proving

ONE = ReplicaOptions(speeds=FAST)


async def _talk(proven: Proving, *names: str) -> None:
    """Have batches published, and applied."""
    for name in names:
        sim, replica = proven.sims[name], proven.replicas[name]
        await proven.caller.complete(replica, "simulated", [*range(300, 340)])
        await eventually(lambda s=sim: s.publisher.next_sequence > 0)  # type: ignore[misc]
        stats = proven.knowledge.stats(replica)
        assert stats is not None
        await eventually(lambda s=sim, t=stats: t.last_sequence == s.publisher.next_sequence - 1)  # type: ignore[misc]


async def test_the_batch_that_was_applied_last_is_fine_and_so_is_an_empty_stream() -> None:
    async with proving() as proven:
        assert (await check_replay(proven.replicas["a"], proven.knowledge)).word == "ok"
        await _talk(proven, "a")
        assert (await check_replay(proven.replicas["a"], proven.knowledge)).word == "ok"


async def test_a_replica_without_a_replay_port_is_told() -> None:
    async with proving(ReplicaOptions(speeds=FAST, replay_endpoint=None)) as proven:
        assert (await check_replay(proven.replicas["a"], proven.knowledge)).word == "replay_absent"


async def test_a_replay_port_that_does_not_answer_is_told() -> None:
    async with proving(settled=False) as proven:
        proven.sims["a"].silent.lists_events_of = (proven.sims["a"].publisher.endpoint, "tcp://127.0.0.1:1")
        events = proven.knowledge.events
        await eventually(lambda: any((s.replay_endpoint or "").endswith(":1") for s in events.followable.values()))
        verdict = await check_replay(proven.replicas["a"], proven.knowledge, timeout_s=0.05)

        assert verdict.word == "replay_absent"
        assert "does not answer" in verdict.detail


async def test_the_batches_of_another_process_are_told() -> None:
    """The replay port is the other replica's, which published something else."""
    async with proving(ONE, ONE) as proven:
        a, b = (proven.sims[name].publisher for name in "ab")
        proven.sims["a"].silent.lists_events_of = (a.endpoint, b.replay_endpoint)
        events = proven.knowledge.events
        await eventually(lambda: events.followable[proven.replicas["a"].key].replay_endpoint == b.replay_endpoint)
        await eventually(lambda: proven.run.is_settled(proven.replicas["a"].server))
        await proven.caller.complete(proven.replicas["a"], "simulated", [*range(300, 340)])
        stats = proven.knowledge.stats(proven.replicas["a"])
        assert stats is not None
        await eventually(lambda: stats.last_sequence >= 0)
        verdict = await check_replay(proven.replicas["a"], proven.knowledge)

        assert verdict.word == "replay_stale"


async def test_where_events_are_not_followed_nothing_is_said() -> None:
    async with proving(kv_events="off") as proven:
        assert (await check_replay(proven.replicas["a"], proven.knowledge)).word == "skipped"
