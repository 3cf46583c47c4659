"""ReplicaCaller: marked requests straight to a replica, and every way it may fail them."""

from __future__ import annotations

import pytest

from gateway.check.replica_caller import MARK, CallBroken, CallFailed, CallTimedOut, ReplicaCaller
from loadtest.replica import Fault, ReplicaOptions
from tests.gateway.check.proving import FAST, proving


async def test_what_it_sends_is_marked_carries_the_key_and_names_the_rank() -> None:
    async with proving(ReplicaOptions(speeds=FAST, ranks=2)) as proven, ReplicaCaller(api_key="secret") as caller:
        usage = await caller.complete(proven.replicas["a#1"], "simulated", [300, 301], salt="s")

        sent = next(r for r in reversed(proven.sims["a"].requests) if r.path == "/v1/completions")
        assert usage.prompt == 2
        assert usage.cached == 0
        assert b'"cache_salt":"s"' in sent.body
        assert (sent.header("x-request-id") or "").startswith(MARK)
        assert sent.header("authorization") == "Bearer secret"
        assert sent.header("x-data-parallel-rank") == "1"


async def test_it_tokenizes_as_the_replica_does() -> None:
    async with proving() as proven:
        ids = await proven.caller.tokenize(proven.replicas["a"], {"prompt": "The fox.", "add_special_tokens": True})

        assert ids == proven.sims["a"].folder.encode("The fox.", add_special_tokens=True)


async def test_an_answer_that_is_none_is_a_failure_that_quotes_nothing() -> None:
    async with proving() as proven:
        replica, sim = proven.replicas["a"], proven.sims["a"]
        sim.faults.add(Fault(status=500))
        with pytest.raises(CallBroken, match=r"^/v1/completions answered 500$"):
            await proven.caller.complete(replica, "simulated", [300])
        with pytest.raises(CallFailed, match="answered 400") as refused:
            await proven.caller.tokenize(replica, {})
        sim.faults.add(Fault(status=501))  # vLLM for a model that generates nothing
        with pytest.raises(CallFailed, match="answered 501") as unable:
            await proven.caller.complete(replica, "simulated", [300])
        assert refused.type is unable.type is CallFailed
        sim.faults.add(Fault(die_after_chunks=0))
        with pytest.raises(CallFailed, match="Error"):
            await proven.caller.complete(replica, "simulated", [300])


async def test_a_replica_that_never_answers_is_not_waited_for_for_ever() -> None:
    async with proving() as proven, ReplicaCaller(timeout_s=0.05) as caller:
        proven.sims["a"].faults.add(Fault(stall_before_head=True))
        with pytest.raises(CallTimedOut, match="no answer in time"):
            await caller.complete(proven.replicas["a"], "simulated", [300])


async def test_usage_without_details_tells_of_no_cached_tokens() -> None:
    async with proving(ReplicaOptions(speeds=FAST, prompt_tokens_details=False)) as proven:
        assert (await proven.caller.complete(proven.replicas["a"], "simulated", [300])).cached is None
