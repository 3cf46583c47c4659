"""What an explanation says: the numbers that were compared, who was out, and nothing of the prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import BadRequest, ModelNotFound
from gateway.fleet.load_report import LoadReport
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.response_home import Home
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.explanation import known_tiers
from gateway.router.response_homes import ResponseHomes
from gateway.router.router import Router
from router_strategies import available
from tests.gateway.examples import MODEL, SECRET, Clock, Events, a_pool, a_router

PROMPT = list(range(1000))
THREE = "a=http://a:1,b=http://b:1,c=http://c:1"


def _request(prompt: list[int] = PROMPT, **fields: Any) -> InferenceRequest:
    body = {"model": MODEL, "prompt": prompt, "stream": True, **fields}
    return InferenceRequest.parse("completions", json.dumps(body).encode())


def _index(pool: ReplicaPool, held: dict[str, int]) -> MemoryIndex:
    """Of :data:`PROMPT`, so many blocks of 16 at each."""
    index = MemoryIndex()
    chain = extend_chain(chain_root(SECRET, MODEL, "", "", 16), pack_tokens(PROMPT), 16)
    for replica in pool.replicas:
        index.begin(replica.key, {Tier.L0: chain[: held.get(replica.id, 0)]})
    return index


async def _explained(router: Router, request: InferenceRequest | None = None, **more: Any) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(json.dumps((await router.explain(request or _request(), **more)).json()))
    return page


async def test_every_number_of_the_choice_is_there() -> None:
    """b holds 40 blocks and is believed, a is busy, and the cost's parts make the cost."""
    pool = a_pool()
    for replica in pool.replicas:
        replica.reported(LoadReport(waiting=3.0, running=2.0, kv_usage=0.5, block_size=16, kv_blocks=200), 100.0)
    router = a_router(pool, index=_index(pool, {"b": 40}), events=Events({"b": {Tier.L0: 16}}))

    page = await _explained(router)
    a, b = page["candidates"]

    assert page["prompt"]["tokens"] == 1000
    assert page["prompt"]["blocks"] == page["prompt"]["matchable"] == {"16": 62}
    assert (b["confirmed"], b["expected_tokens"], b["trust"], b["trust_reason"]) == ({"l0": 640}, 640, 1.0, "fresh")
    assert (a["confirmed"], a["expected_tokens"], a["trust_reason"]) == ({"l0": 0}, 0, "events are not followed")
    assert b["prefill_s"] < a["prefill_s"]
    assert b["memory"]["capacity_blocks"] == 200
    assert b["reported"] == {"waiting": 3.0, "running": 2.0, "kv_usage": 0.5}
    assert sum(b["parts"].values()) == pytest.approx(b["cost"][0], abs=1e-5)
    assert page["choice"]["replica"] == "b"
    assert page["choice"]["reason"] == "prefix"
    assert page["choice"]["matched"] == "prompt=1000,l0=640"
    assert page["choice"]["ties"] == ["b"]


async def test_nothing_of_the_prompt_is_in_it() -> None:
    """Only that there is a salt; no text, no ids, no hash of a block."""
    router = a_router(a_pool())
    odd = [123_456_789 + number for number in range(64)]
    page = await _explained(router, _request(odd, cache_salt="sesame", user="alice"))
    text = json.dumps(page)
    chain = extend_chain(chain_root(SECRET, MODEL, "", "sesame", 16), pack_tokens(odd), 16)

    assert page["request"]["salted"] is True
    assert page["prompt"]["tokens"] == 64
    assert not any(str(secret) in text for secret in ("sesame", "alice", *odd, *chain))


async def test_an_adapter_is_named_with_its_base() -> None:
    """Its blocks are its own."""
    pool = a_pool()
    page = await _explained(a_router(pool, index=_index(pool, {"b": 40})), _request(model="ad1"))

    assert page["request"]["lora"] == page["request"]["model"] == "ad1"
    assert page["request"]["namespace"] == MODEL
    assert {each["expected_tokens"] for each in page["candidates"]} == {0}


@pytest.mark.parametrize("name", available())
@settings(max_examples=25)
@given(sent=st.lists(st.integers(0, 2), max_size=6))
async def test_who_is_named_is_who_gets_the_next_request(name: str, sent: list[int]) -> None:
    """Whatever ran before, and however often it is asked: nothing moves on by that, neither rotation nor chance."""
    pool = a_pool(THREE)
    router = a_router(pool, index=_index(pool, {"b": 10, "c": 30}), strategy=name)
    prompts = [PROMPT, PROMPT[:400], list(range(5000, 5600))]
    for number in sent:
        router.attempt(await router.prepare(_request(prompts[number]))).end(Outcome.OK)
    pages = [await _explained(router, _request(prompts[0])) for _ in range(3)]
    decision = router.attempt(await router.prepare(_request(prompts[0]))).decision

    assert pages[0]["candidates"] == pages[2]["candidates"]
    assert [page["choice"]["replica"] for page in pages] == [decision.replica_id] * 3
    assert (pages[0]["choice"]["reason"], pages[0]["choice"]["matched"]) == (decision.reasons, decision.matched)
    assert pages[0]["choice"]["prefill_s"] == pytest.approx(decision.prefill_s, abs=1e-6)


async def test_nothing_is_booked() -> None:
    """No load, no expectation, no utilisation."""
    pool = a_pool()
    router = a_router(pool)
    for _ in range(5):
        await _explained(router)
    page = await _explained(router)

    assert [(each["inflight"], each["promised_s"], each["expected_tokens"]) for each in page["candidates"]] == [
        (0, 0.0, 0)
    ] * 2
    assert page["utilisation"] == 0.0
    assert page["choice"]["ties"] == ["a", "b"]


async def test_who_is_out_and_why() -> None:
    """Each in a word or two; a server that was never reached stands for itself."""
    clock, pool = Clock(), a_pool(f"{THREE},d=http://d:1,e=http://e:1,f=http://f:1")
    servers = {server.id: server for server in pool.servers}
    pool.set_drained({"a"})
    for _ in range(3):
        servers["b"].probe_missed("connection refused")
    servers["c"].breaker.trip(clock.now)
    pool.identify(servers["d"], (), {}, ranks=())
    servers["e"].sent(clock.now)
    servers["e"].attempt_ended(Outcome.BUSY, 9.0, clock.now, sent_s=clock.now, answered=False)
    page = await _explained(a_router(pool, clock=clock))

    assert [each["replica"] for each in page["candidates"]] == ["f"]
    assert {each["replica"]: (each["why"], each["fault"]) for each in page["excluded"]} == {
        "a": ("draining", ""),
        "b": ("unhealthy", "connection refused"),
        "c": ("breaker open", ""),
        "d": ("nothing known yet", ""),
        "e": ("pushing back", ""),
    }


async def test_the_least_bad_is_a_candidate_with_its_obstacle() -> None:
    """As routing has it: where none is ready, those that are merely open are better than refusing."""
    clock, pool = Clock(), a_pool()
    for server in pool.servers:
        server.breaker.trip(clock.now)
    page = await _explained(a_router(pool, clock=clock))

    assert [each["obstacle"] for each in page["candidates"]] == ["breaker open"] * 2
    assert page["excluded"] == []
    assert page["choice"]["replica"] in {"a", "b"}


async def test_if_nobody_can_be_chosen_it_says_so() -> None:
    """No choice, the error that a client would get, and everybody's reason."""
    pool = a_pool()
    for server in pool.servers:
        for _ in range(3):
            server.probe_missed("connection refused")
    page = await _explained(a_router(pool))

    assert page["choice"] is None
    assert page["candidates"] == []
    assert "connection refused" in page["error"]["message"]
    assert [each["why"] for each in page["excluded"]] == ["unhealthy"] * 2


async def test_any_strategy_may_be_asked_though_clients_may_not() -> None:
    """Its name in any spelling; the one in force stays. An unknown one is a bad request."""
    router = a_router(a_pool(), offered=["kv_aware"])
    page = await _explained(router, strategy="Round-Robin")

    assert (page["strategy"], page["choice"]["reason"], router.strategy) == ("round_robin", "rotation", "kv_aware")
    assert (page["prompt"]["tokens"], page["prompt"]["planned_tokens"] > 0) == (0, True)
    assert page["candidates"][0]["parts"] == {"turns_earned": 1.0}
    with pytest.raises(BadRequest, match="no strategy is named"):
        await router.explain(_request(), strategy="fastest")
    with pytest.raises(BadRequest, match="is not offered here"):
        await router.prepare(_request(), strategy="round_robin")


async def test_an_unknown_model_is_refused() -> None:
    """As the request itself would be."""
    with pytest.raises(ModelNotFound):
        await a_router(a_pool()).explain(_request(model="nope"))


async def test_a_kept_response_leaves_no_choice() -> None:
    """The one that keeps it is the only candidate, and the others are out for that."""
    clock = Clock()
    homes = ResponseHomes(clock=clock)
    homes.learned("resp_1", Home("b", ""))
    body = json.dumps({"model": MODEL, "input": "go on", "previous_response_id": "resp_1"}).encode()
    page = await _explained(a_router(a_pool(), homes=homes, clock=clock), InferenceRequest.parse("responses", body))

    assert [each["replica"] for each in page["candidates"]] == ["b"]
    assert [(each["replica"], each["why"]) for each in page["excluded"]] == [("a", "response kept elsewhere")]
    assert (page["request"]["kept_by"], page["choice"]["reason"].split(",")[0]) == ("b", "response")


async def test_distrust_is_shown_and_counts() -> None:
    """A blind replica's blocks are told and not credited."""
    pool = a_pool()
    router = a_router(
        pool, index=_index(pool, {"b": 40}), events=Events({"a": {Tier.L0: 16}, "b": {Tier.L0: 16}}, FeedState.BLIND)
    )
    page = await _explained(router)
    a, b = page["candidates"]

    assert (b["confirmed"], b["trust"], b["trust_reason"]) == ({"l0": 640}, 0.0, "blind")
    assert a["cost"] == b["cost"]


def test_tiers_of_which_nothing_is_known_are_left_out() -> None:
    """Disjoint tokens."""
    assert known_tiers(TierTokens(64, None, 256)) == {"l0": 64, "l2": 192}
    assert known_tiers(TierTokens()) == {}
