"""What lies below the GPU decides where requests go: what events tell of it, and what is estimated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.fleet.inflight import InFlight
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.router import Router
from router_strategies._cost import Rates, Work, prefill_seconds
from tests.gateway.examples import MODEL, SECRET, Clock, Events, a_pool, a_router

PROMPT = list(range(2000))
RATES = Rates()


def _chain(size: int, prompt: Sequence[int] = PROMPT) -> list[int]:
    return extend_chain(chain_root(SECRET, MODEL, "", "", size), pack_tokens(prompt), size)


def _request(prompt: Sequence[int] = PROMPT, **fields: object) -> InferenceRequest:
    body = {"model": MODEL, "prompt": list(prompt), "stream": True, **fields}
    return InferenceRequest.parse("completions", json.dumps(body).encode())


class Fleet:
    """Two replicas, or more, whose loads are made by hand; ``a`` is the one that holds things."""

    def __init__(
        self, held: dict[Tier, list[int]] | None = None, *, servers: str = "a=http://a:1,b=http://b:1", l2: bool = True
    ) -> None:
        self.clock, self.pool, self.index = Clock(), a_pool(servers), MemoryIndex()
        self.l2 = L2Estimate(ttl_s=600.0) if l2 else None
        self.speeds = Speeds()
        for replica in self.pool.replicas:
            self.index.begin(replica.key, held or {} if replica.id == "a" else {})
        self.router: Router = a_router(
            self.pool,
            clock=self.clock,
            index=self.index,
            events=Events({replica.id: {Tier.L0: 16, Tier.L1: 256} for replica in self.pool.replicas}),
            speeds=self.speeds,
            l2=self.l2,
        )

    def replica(self, id_: str) -> Replica:
        return next(replica for replica in self.pool.replicas if replica.id == id_)

    def busy(self, id_: str, seconds: float) -> None:
        """So much prefill is promised there."""
        inflight = InFlight(seconds, 0.0, 100, 1.0, True, self.clock.now)
        self.replica(id_).workload.dispatch(inflight, self.clock.now)

    def finish(self, prompt: Sequence[int] = PROMPT, outcome: Outcome = Outcome.OK, **fields: object) -> None:
        """One request from beginning to end, and time for what it left to be events' business alone."""
        self.send(prompt, **fields).end(outcome)
        self.clock.now += 60.0

    def send(self, prompt: Sequence[int] = PROMPT, **fields: object) -> Attempt:
        prepared = self.router.prepare_now(_request(prompt, **fields))
        assert prepared is not None
        return self.router.attempt(prepared)


# L1, which events tell of


def test_host_memory_is_worth_its_loading() -> None:
    """1,792 of 2,000 tokens in chunks of 256 in an idle replica's host memory: it is chosen, at R1's cost."""
    fleet = Fleet({Tier.L1: _chain(256)})
    decision = fleet.send().decision

    assert (decision.replica_id, decision.reason) == ("a", "prefix")
    assert decision.matched == "prompt=2000,l0=0,l1=1792"
    assert decision.prefill_s == pytest.approx(prefill_seconds(Work(208, 1792, from_l1=1792), RATES))


@pytest.mark.parametrize(("seconds", "replica", "reason"), [(0.5, "a", "prefix"), (0.7, "b", "spill")])
def test_host_memory_is_left_when_the_queue_before_it_costs_more(seconds: float, replica: str, reason: str) -> None:
    """What it spares, three times over, is 0.66 seconds."""
    fleet = Fleet({Tier.L1: _chain(256)}, l2=False)
    fleet.busy("a", seconds)
    decision = fleet.send().decision

    assert (decision.replica_id, decision.reason) == (replica, reason)


def test_the_gpu_comes_before_host_memory() -> None:
    """The same prompt in the GPU of one and the host memory of the other costs less where nothing is loaded."""
    fleet = Fleet({Tier.L1: _chain(256)})
    fleet.index.begin(fleet.replica("b").key, {Tier.L0: _chain(16)[:112]})

    assert fleet.send().decision.replica_id == "b"


# L2, by an estimate


def _with_a_busy_holder(seconds: float, prompt: Sequence[int], *, l2: bool) -> Attempt:
    """``a`` finished the prompt once, holds it in its GPU, and has so much to do by now."""
    fleet = Fleet({Tier.L0: _chain(16, prompt)}, l2=l2)
    fleet.finish(prompt)
    fleet.busy("a", seconds)
    return fleet.send(prompt)


def test_a_busy_holders_long_prompt_spills_to_whoever_can_load_it() -> None:
    """With 0.65 s of work the holder is dearer than loading 1,792 tokens elsewhere, and cheaper than computing them."""
    loaded = _with_a_busy_holder(0.65, PROMPT, l2=True).decision
    without = _with_a_busy_holder(0.65, PROMPT, l2=False).decision

    assert (without.replica_id, without.reason, without.l2_estimate) == ("a", "prefix", 0)
    assert (loaded.replica_id, loaded.reason, loaded.l2_estimate) == ("b", "spill", 1792)
    assert loaded.matched == "prompt=2000,l0=0,l2_estimate=1792"
    assert loaded.prefill_s == pytest.approx(
        RATES.step_s + 208 / 8000 * (1 + (1792 + 104) / 30_000) + 0.1 + 1792 / 34_000
    )


def test_a_short_prompt_gets_no_credit() -> None:
    """500 tokens are computed sooner than fetched: the estimate changes nothing, neither the choice nor the cost."""
    for seconds in (0.1, 0.3):
        with_it, without = (_with_a_busy_holder(seconds, PROMPT[:500], l2=l2).decision for l2 in (True, False))

        assert (with_it.replica_id, with_it.matched) == (without.replica_id, without.matched)
        assert (with_it.prefill_s, with_it.l2_estimate) == (without.prefill_s, 0)


@pytest.mark.parametrize(("tokens", "credited"), [(1000, 0), (1024, 0), (1025, 1024), (1279, 1024), (1281, 1280)])
def test_only_whole_chunks_are_credited_and_never_the_last_token(tokens: int, credited: int) -> None:
    """1,024 tokens are four chunks, of which the last holds the token that is always computed."""
    fleet = Fleet()
    fleet.finish(PROMPT[:tokens])

    assert fleet.send(PROMPT[:tokens]).decision.l2_estimate == credited


def test_loading_is_credited_only_where_it_is_cheaper_than_computing() -> None:
    """A fleet that computes 30,000 tokens a second fetches nothing that takes 0.1 s to begin."""
    fast = Speeds(Rates(prefill_tokens_s=30_000))
    fleet = Fleet()
    router = a_router(fleet.pool, clock=fleet.clock, index=fleet.index, speeds=fast, l2=fleet.l2)
    fleet.finish()
    prepared = router.prepare_now(_request())
    assert prepared is not None
    decision = router.attempt(prepared).decision

    assert prepared.l2_estimate == 1792
    assert decision.l2_estimate == 0
    assert decision.prefill_s == pytest.approx(prefill_seconds(Work(2000, 0), fast.rates))


@pytest.mark.parametrize(("tokens", "credited"), [(1000, 0), (1100, 1024)])
def test_little_is_not_worth_the_way_however_slow_the_fleet(tokens: int, credited: int) -> None:
    """768 tokens take it 0.5 s to compute: all the same nothing is made of them."""
    slow = Speeds(Rates(prefill_tokens_s=1_500))
    fleet = Fleet()
    router = a_router(fleet.pool, clock=fleet.clock, index=fleet.index, speeds=slow, l2=fleet.l2)
    fleet.finish(PROMPT[:tokens])
    prepared = router.prepare_now(_request(PROMPT[:tokens]))
    assert prepared is not None

    assert router.attempt(prepared).decision.l2_estimate == credited


def test_only_what_lies_beyond_all_else_is_credited() -> None:
    """640 tokens in the GPU, all 1,792 in L2: 1,152 are to be loaded. Beyond 1,280 it is not worth it."""
    for held, credited in ((40, 1152), (80, 0)):
        fleet = Fleet({Tier.L0: _chain(16)[:held]}, servers="a=http://a:1")
        assert fleet.l2 is not None
        fleet.l2.finished(_chain(16), 16, now=fleet.clock.now)
        decision = fleet.send().decision

        uncached, cached = 2000 - held * 16 - credited, held * 16 + credited
        assert (decision.confirmed, decision.l2_estimate) == (TierTokens(held * 16), credited)
        assert decision.prefill_s == pytest.approx(prefill_seconds(Work(uncached, cached, from_l2=credited), RATES))
        assert decision.expected_tokens == held * 16


def test_what_is_on_its_way_comes_before_the_estimate() -> None:
    """A twin under way at the same replica will leave all of the prompt in its GPU."""
    fleet = Fleet(servers="a=http://a:1")
    fleet.finish()
    fleet.send()
    twin = fleet.send().decision

    assert (twin.expected_tokens, twin.l2_estimate) == (1984, 0)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_only_what_was_finished_is_taken_to_lie_there(outcome: Outcome) -> None:
    """Nobody knows how far the others came."""
    fleet = Fleet()
    fleet.finish(outcome=outcome)

    assert fleet.send().decision.l2_estimate == 0


def test_it_is_of_the_model_and_of_no_replica() -> None:
    """Replicas end and their caches are emptied: what lies in L2 stays, until its time is over."""
    fleet = Fleet({Tier.L0: _chain(16)})
    fleet.finish()
    fleet.index.clear(fleet.replica("a").key, Tier.L0)
    ReplicaPool.reconcile(fleet.pool, [fleet.replica("b").server.spec])
    fleet.index.drop(fleet.replica("b").key)
    fleet.index.begin(fleet.replica("b").key, {})
    later = fleet.send().decision
    fleet.clock.now += 600.0

    assert (later.replica_id, later.l2_estimate) == ("b", 1792)
    assert fleet.send().decision.l2_estimate == 0


@pytest.mark.parametrize("fields", [{"model": "ad1"}, {"cache_salt": "s"}, {"prompt_logprobs": 1}])
def test_others_prompts_and_requests_that_read_no_cache_get_none(fields: dict[str, Any]) -> None:
    """An adapter's and a salted prompt are other chunks."""
    fleet = Fleet()
    fleet.finish()

    assert fleet.send(**fields).decision.l2_estimate == 0


def test_nothing_is_learned_from_what_was_only_estimated() -> None:
    """Whether it was loaded or computed, nobody saw: no sample for calibration, and no seconds that a cache spared."""
    fleet = Fleet({Tier.L0: _chain(16)[:40]}, servers="a=http://a:1")
    assert fleet.l2 is not None
    fleet.l2.finished(_chain(16), 16, now=fleet.clock.now)
    attempt = fleet.send()
    known_s = prefill_seconds(Work(1360, 640), RATES)
    fleet.clock.now += 5.0
    attempt.first_byte()
    attempt.end(Outcome.OK)

    assert (attempt.decision.l2_estimate, fleet.speeds.samples) == (1152, 0)
    assert attempt.decision.avoided_s == pytest.approx(prefill_seconds(Work(2000, 0), RATES) - known_s)


async def test_an_explanation_calls_it_an_estimate() -> None:
    """Of the prompt, of each candidate, and of the choice."""
    fleet = Fleet({Tier.L0: _chain(16)})
    fleet.finish()
    fleet.busy("a", 0.65)
    page = (await fleet.router.explain(_request())).json()
    prompt, candidates, choice = page["prompt"], page["candidates"], page["choice"]

    assert isinstance(prompt, dict)
    assert isinstance(candidates, list)
    assert isinstance(choice, dict)
    assert prompt["l2_estimate"] == 1792
    assert [candidate["l2_estimate"] for candidate in candidates] == [0, 1792]
    assert (choice["replica"], choice["l2_estimate"], choice["matched"]) == (
        "b",
        1792,
        "prompt=2000,l0=0,l2_estimate=1792",
    )
