"""Knowledge: what is believed of a replica that really told it."""

from __future__ import annotations

from gateway.prompt.blocks import pack_tokens
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, proving


async def test_blocks_of_what_was_sent_are_announced_and_held_under_their_own_scope() -> None:
    ids = [*range(300, 349)]
    async with proving(ReplicaOptions(speeds=FAST, block_size=8)) as proven:
        replica, knowledge = proven.replicas["a"], proven.knowledge
        assert knowledge.block_size(replica) == 8  # by its metrics
        chain = knowledge.chain(replica, pack_tokens(ids))
        assert not knowledge.announced(replica, chain[-1])

        await proven.caller.complete(replica, "simulated", ids)
        await eventually(lambda: knowledge.announced(replica, chain[-1]))

        assert len(chain) == 6
        assert knowledge.holds(replica, chain[0])
        assert not knowledge.announced(replica, knowledge.chain(replica, pack_tokens(ids), salt="s")[-1])
        assert not knowledge.announced(replica, knowledge.chain(replica, pack_tokens(ids), lora="l")[-1])


async def test_without_events_nothing_is_announced() -> None:
    async with proving(ReplicaOptions(speeds=FAST), kv_events="off") as proven:
        replica = proven.replicas["a"]

        assert proven.knowledge.stats(replica) is None
        assert not proven.knowledge.announced(replica, 1)
        assert not proven.knowledge.events_wanted
