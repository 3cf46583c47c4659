"""UnseenPrompt: unique blocks, and whose events told of them under which scope."""

from __future__ import annotations

from random import Random

from gateway.check.unseen_prompt import unseen_prompt
from loadtest.replica import ReplicaOptions
from tests.gateway.check.proving import FAST, proving


async def test_it_fills_blocks_of_the_replicas_size() -> None:
    async with proving(ReplicaOptions(speeds=FAST, block_size=256)) as proven:
        prompt = await unseen_prompt(proven.replicas["a"], proven.knowledge, proven.caller, Random(1))

        assert len(prompt.ids) == 3 * 256 + 1
        assert (await prompt.send(proven.replicas["a"], proven.caller)).cached == 0


async def test_events_tell_of_it_at_the_replica_that_was_sent_it_and_nowhere_else() -> None:
    async with proving(ReplicaOptions(speeds=FAST), ReplicaOptions(speeds=FAST)) as proven:
        a, b = proven.replicas["a"], proven.replicas["b"]
        prompt = await unseen_prompt(a, proven.knowledge, proven.caller, Random(1), salt="s")
        await prompt.send(a, proven.caller)

        assert await prompt.await_told(a, proven.knowledge, 5.0) is not None
        assert not prompt.is_told_by(b, proven.knowledge)
        assert prompt.told_as(a, proven.knowledge, [""]) is None
        assert await prompt.await_told(b, proven.knowledge, 0.05) is None


async def test_it_is_not_waited_for_once_it_was_told_of_as_something_else() -> None:
    async with proving() as proven:
        a = proven.replicas["a"]
        proven.sims["a"].silent.drops_extra_keys = True
        prompt = await unseen_prompt(a, proven.knowledge, proven.caller, Random(1), salt="s")
        await prompt.send(a, proven.caller)

        assert await prompt.await_told(a, proven.knowledge, 60.0, unless=[""]) is None
        assert prompt.told_as(a, proven.knowledge, [""]) == ""


async def test_a_replica_that_does_not_tokenize_is_sent_common_tokens() -> None:
    async with proving() as proven:
        await proven.sims["a"].refuse()
        prompt = await unseen_prompt(proven.replicas["a"], proven.knowledge, proven.caller, Random(1))

        assert len(prompt.ids) == 129
        assert min(prompt.ids) >= 300
