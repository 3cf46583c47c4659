"""The router: what is known of a prompt, who is chosen, and what is booked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import BadRequest, ModelNotFound, NoReplica
from gateway.fleet.load_report import LoadReport
from gateway.fleet.outcome import Outcome
from gateway.fleet.rate_estimator import Learning
from gateway.fleet.speeds import Speeds
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision import Decision
from gateway.router.router import Router
from gateway.usage import Usage
from tests.gateway.examples import MODEL, SECRET, Clock, Events, FarIndex, SlowEncoder, Told, a_pool, a_router

PROMPT = list(range(1000))


def _request(prompt: list[int] = PROMPT, **fields: Any) -> InferenceRequest:
    body = {"model": MODEL, "prompt": prompt, "stream": True, **fields}
    return InferenceRequest.parse("completions", json.dumps(body).encode())


def _chain(size: int, *, lora: str = "", salt: str = "", prompt: list[int] = PROMPT) -> list[int]:
    return extend_chain(chain_root(SECRET, MODEL, lora, salt, size), pack_tokens(prompt), size)


def _index(pool: Any, held: dict[str, list[int]], tier: Tier = Tier.L0) -> MemoryIndex:
    index = MemoryIndex()
    for replica in pool.replicas:
        index.begin(replica.key, {tier: held[replica.id]} if replica.id in held else {})
    return index


async def _decided(router: Router, request: InferenceRequest) -> Decision:
    """What would be chosen now."""
    decision = (await router.explain(request)).decision
    assert decision is not None
    return decision


async def test_the_holder_is_chosen_and_its_tokens_are_told() -> None:
    """b holds 40 blocks of 16: 640 tokens, and the decision says so."""
    pool = a_pool()
    router = a_router(pool, index=_index(pool, {"b": _chain(16)[:40]}))

    decision = router.attempt(await router.prepare(_request())).decision

    assert (decision.replica_id, decision.reason) == ("b", "prefix")
    assert decision.confirmed == TierTokens(640)
    assert decision.matched == "prompt=1000,l0=640"
    assert decision.uncached_tokens == 360


async def test_the_block_of_the_last_token_is_never_promised() -> None:
    """A prompt of exactly 62 held blocks: vLLM computes the last one again, so 61 count."""
    pool = a_pool()
    prompt = PROMPT[: 62 * 16]
    router = a_router(pool, index=_index(pool, {"b": _chain(16, prompt=prompt)}))

    decision = await _decided(router, _request(prompt))

    assert decision.confirmed.l0 == 61 * 16


async def test_block_sizes_differ_by_replica() -> None:
    """One has blocks of 32, one of 16: each is matched in its own."""
    pool = a_pool()
    index = MemoryIndex()
    keys = {replica.id: replica.key for replica in pool.replicas}
    index.begin(keys["a"], {Tier.L0: _chain(32)[:10]})
    index.begin(keys["b"], {Tier.L0: _chain(16)[:10]})
    router = a_router(pool, index=index, events=Events({"a": {Tier.L0: 32}, "b": {Tier.L0: 16}}))

    decision = await _decided(router, _request())

    assert (decision.replica_id, decision.confirmed.l0) == ("a", 320)


@pytest.mark.parametrize("fields", [{"model": "ad1"}, {"cache_salt": "s"}])
async def test_adapters_and_salts_are_other_blocks(fields: dict[str, Any]) -> None:
    """What is held for the base model without salt is worth nothing to them."""
    pool = a_pool()
    router = a_router(pool, index=_index(pool, {"b": _chain(16)}))

    assert (await _decided(router, _request(**fields))).confirmed.usable == 0


async def test_a_request_that_reads_no_cache_gets_no_credit() -> None:
    """prompt_logprobs makes vLLM compute everything."""
    pool = a_pool()
    router = a_router(pool, index=_index(pool, {"b": _chain(16)}))

    decision = await _decided(router, _request(prompt_logprobs=1))

    assert (decision.confirmed.usable, decision.expected_tokens) == (0, 0)


async def test_host_memory_counts_beyond_the_gpu() -> None:
    """256 tokens in blocks of 64 in L1 alone are 256 usable tokens of L1."""
    pool = a_pool()
    index = _index(pool, {"b": _chain(64)[:4]}, Tier.L1)
    router = a_router(pool, index=index, events=Events({"b": {Tier.L0: 16, Tier.L1: 64}}))

    decision = await _decided(router, _request())

    assert (decision.replica_id, decision.matched) == ("b", "prompt=1000,l0=0,l1=256")


async def test_blind_events_earn_no_credit_in_the_cost() -> None:
    """A replica that is not believed is chosen no more often than another, though its match is told."""
    pool = a_pool()
    index = _index(pool, {"b": _chain(16)})
    router = a_router(pool, index=index, events=Events({"a": {}, "b": {}}, FeedState.BLIND))

    assert (await router.explain(_request())).ties == ["a", "b"]


async def test_what_is_on_its_way_is_expected_there() -> None:
    """The second of two equal prompts follows the first before any event."""
    pool = a_pool()
    router = a_router(pool)
    first = router.attempt(await router.prepare(_request()))
    second = router.attempt(await router.prepare(_request()))

    assert second.decision.replica_id == first.decision.replica_id
    assert (second.decision.expected_tokens, second.decision.confirmed.usable) == (992, 0)


async def test_a_retry_avoids_whom_it_tried_and_sees_fresh_loads() -> None:
    """Same look-up, another replica; with everyone tried, the reason."""
    pool = a_pool()
    router = a_router(pool, index=_index(pool, {"b": _chain(16)}))
    prepared = await router.prepare(_request())
    first = router.attempt(prepared)
    first.end(Outcome.UNREACHABLE)
    second = router.attempt(prepared, frozenset({first.server_id}))

    assert (first.server_id, second.server_id) == ("b", "a")
    with pytest.raises(NoReplica):
        router.attempt(prepared, frozenset({"a", "b"}))


async def test_every_ending_clears_the_books() -> None:
    """Whatever the outcome and however often it is told, nothing stays in flight or promised."""
    clock, pool = Clock(), a_pool("a=http://a:1")
    router = a_router(pool, clock=clock)
    (replica,) = pool.replicas
    for outcome in Outcome:
        attempt = router.attempt(await router.prepare(_request()))
        assert replica.workload.inflight == 1
        assert replica.workload.promised_s(clock.now) > 0
        attempt.end(outcome)
        attempt.end(Outcome.OK)
        assert replica.workload.inflight == 0
        assert replica.workload.promised_s(clock.now) == 0


async def test_speeds_are_learned_from_first_bytes_and_ends() -> None:
    """A streamed prefill twice as long as predicted moves the calibration; its decoding moves the mean."""
    clock, pool, speeds = Clock(), a_pool("a=http://a:1"), Speeds(learning=Learning(prior_s=0.001))
    router = a_router(pool, clock=clock, speeds=speeds)
    attempt = router.attempt(await router.prepare(_request()))
    predicted_s = attempt.decision.prefill_s
    clock.now += 2 * predicted_s
    attempt.first_byte()
    clock.now += 50.0
    attempt.end(Outcome.OK)

    assert speeds.samples == 1
    assert speeds.rates.calibration == pytest.approx(2.0, rel=0.05)
    assert speeds.decode_s == pytest.approx(5.0 + 0.02 * 45)


async def test_a_replica_of_another_speed_is_compared_at_that_speed() -> None:
    """Twice as fast as the others, and as fast as it is said to be: nothing is to be corrected."""
    clock, pool, speeds = Clock(), a_pool("a=http://a:1?speed=2"), Speeds()
    router = a_router(pool, clock=clock, speeds=speeds)
    for number in range(50):
        attempt = router.attempt(await router.prepare(_request(list(range(number * 9_000, number * 9_000 + 8_000)))))
        clock.now += attempt.decision.prefill_s
        attempt.first_byte()
        attempt.end(Outcome.OK)

    assert speeds.samples == 50
    assert [rate.value for rate in speeds.learned()] == pytest.approx([rate.prior for rate in speeds.learned()])


async def test_replicas_without_events_keep_what_they_were_sent() -> None:
    """Minutes after its end a prompt is still expected where it was answered; one that failed is not."""
    clock, pool = Clock(), a_pool()
    router = a_router(pool, clock=clock)
    attempt = router.attempt(await router.prepare(_request()))
    attempt.end(Outcome.OK)
    clock.now += 300
    follow_up = await _decided(router, _request())

    assert (follow_up.replica_id, follow_up.expected_tokens) == (attempt.decision.replica_id, 992)


async def test_events_that_do_not_arrive_are_made_up_for() -> None:
    """What was sent to a blind replica is kept; what ends once its events flow is theirs to confirm."""
    clock, pool, events = Clock(), a_pool("a=http://a:1"), Events({"a": {}}, FeedState.BLIND)
    router = a_router(pool, clock=clock, events=events)
    router.attempt(await router.prepare(_request())).end(Outcome.OK)
    clock.now += 300
    while_blind = await _decided(router, _request())
    other = list(range(1000, 2000))
    running = router.attempt(await router.prepare(_request(other)))
    for replica in pool.replicas:
        stats = events.stats(replica.key)
        assert stats is not None
        stats.state = FeedState.FRESH
    running.end(Outcome.OK)
    clock.now += 300

    assert while_blind.expected_tokens == 992
    assert (await _decided(router, _request(other))).expected_tokens == 0


async def test_a_host_cache_hit_is_calibrated_with_its_loading() -> None:
    """8 of 10 blocks of 64 in L1, loaded exactly as predicted: the calibration stays 1."""
    clock, pool, speeds = Clock(), a_pool("b=http://b:1"), Speeds(learning=Learning(prior_s=0.0001))
    index = _index(pool, {"b": _chain(64, prompt=list(range(8200)))}, Tier.L1)
    router = a_router(pool, clock=clock, index=index, events=Events({"b": {Tier.L0: 16, Tier.L1: 64}}), speeds=speeds)
    attempt = router.attempt(await router.prepare(_request(list(range(8200)))))
    clock.now += attempt.decision.prefill_s
    attempt.first_byte()

    assert attempt.decision.confirmed.a1 == 8192
    assert speeds.rates.calibration == pytest.approx(1.0)


async def test_a_picture_is_not_its_bytes_in_tokens() -> None:
    """A megabyte of image data promises a bounded guess; so does a huge text nobody can tokenize."""
    router = a_router(a_pool())
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    picture = {"model": MODEL, "messages": [{"role": "user", "content": [image]}]}
    text = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 1_000_000}]}
    guesses = [
        (await _decided(router, InferenceRequest.parse("chat", json.dumps(body).encode()))).uncached_tokens
        for body in (picture, text)
    ]

    assert guesses == [1024, 16_384]


async def test_ranks_of_a_failed_server_keep_their_turn() -> None:
    """A retry's strategy is told of replicas, not of servers."""
    pool = a_pool()
    server = pool.server("a")
    assert server is not None
    pool.identify(server, server.cards, {}, [0, 1])

    assert pool.replica_ids({"a", "gone"}) == {"a", "a#1"}


async def test_what_is_kept_is_bounded_by_the_replicas_capacity() -> None:
    """A cache of 10 blocks cannot hold 62."""
    clock, pool = Clock(), a_pool("a=http://a:1")
    (replica,) = pool.replicas
    replica.reported(LoadReport(kv_tokens=10 * 16), 0.0)
    router = a_router(pool, clock=clock)
    router.attempt(await router.prepare(_request())).end(Outcome.OK, usage=Usage(1000, 32, None))
    clock.now += 300

    assert (await _decided(router, _request())).expected_tokens == 160


@pytest.mark.parametrize("strategy", ["kv_aware", "least_loaded", "prefix_aware", "session"])
async def test_an_engine_that_tells_of_aborted_requests_is_not_left_out(strategy: str) -> None:
    """Its page stands still, as long as it is sent nothing: a crowd that is gone long since."""
    clock, pool = Clock(), a_pool()
    router = a_router(pool, clock=clock, strategy=strategy)
    gone = LoadReport(running=106, waiting=15, kv_usage=0.9, kv_blocks=2000, generated_tokens=5e5)
    replica, chosen = next(iter(pool.replicas)), []
    for number in range(40):
        replica.reported(gone, clock.now)
        attempt = router.attempt(await router.prepare(_request(list(range(number, 1000 + number)))))
        chosen.append(attempt.decision.replica_id)
        attempt.end(Outcome.OK)
        clock.now += 1.0

    assert set(chosen[:5]) == {"b"}
    assert set(chosen[6:]) == {"a", "b"}


async def test_a_listener_hears_of_attempts_from_then_on() -> None:
    """With the hashes of the whole prompt in the replica's block size; not of what was sent before."""
    pool = a_pool("a=http://a:1")
    router = a_router(pool)
    before = router.attempt(await router.prepare(_request()))
    told, other = Told(), list(range(2000, 2040))
    router.listen(told)
    attempt = router.attempt(await router.prepare(_request(other)))
    attempt.first_byte()
    attempt.end(Outcome.OK)
    before.end(Outcome.OK)

    assert told.words == [f"a 40 16 {_chain(16, prompt=other)}", "first byte", "kept"]


async def test_names_and_fleets_that_do_not_fit() -> None:
    """Unknown model, unknown strategy."""
    router = a_router(a_pool())

    with pytest.raises(ModelNotFound):
        await router.prepare(_request(model="nope"))
    with pytest.raises(BadRequest, match="no strategy is named 'x'"):
        await router.prepare(_request(), strategy="x")
    assert (await router.prepare(_request(), strategy="Round-Robin")).strategy == "round_robin"


async def test_a_strategy_that_does_not_read_prompts_does_not_pay_for_them() -> None:
    """Nothing is tokenized, looked up, matched or expected; work is guessed from the body's size, without a reason."""
    pool, speeds, clock = a_pool(), Speeds(), Clock()
    router = a_router(pool, index=FarIndex(), encoder=SlowEncoder(), strategy="round_robin", speeds=speeds, clock=clock)
    request = _request()
    prepared = router.prepare_now(request)
    assert prepared is not None
    attempt = router.attempt(prepared)
    clock.now += 1
    attempt.first_byte()
    decision = attempt.decision

    assert (decision.reasons, decision.matched, decision.prompt_tokens) == ("rotation", "", 0)
    assert decision.uncached_tokens == prepared.work_tokens == request.size // 4
    assert decision.prefill_s > 0
    assert (prepared.chains, speeds.samples) == ({}, 0)
    assert await router.prepare(request, strategy="round_robin") is not None


async def test_prompts_can_be_read_under_every_strategy() -> None:
    """So that the receipt tells what is held where it went, whatever sent it there."""
    pool = a_pool()
    index = _index(pool, {"a": _chain(16)[:40], "b": _chain(16)[:40]})
    router = a_router(pool, index=index, strategy="round_robin", always_read=True)
    decisions = [router.attempt(await router.prepare(_request())).decision for _ in range(2)]

    assert [decision.matched for decision in decisions] == ["prompt=1000,l0=640"] * 2
    assert {decision.replica_id for decision in decisions} == {"a", "b"}


async def test_an_unknown_prompt_is_routed_by_load_and_its_size() -> None:
    """Text without a tokenizer: no tokens, a reason, and a promise by the body's size."""
    router = a_router(a_pool())
    body = json.dumps({"model": MODEL, "prompt": "word " * 4000}).encode()
    decision = await _decided(router, InferenceRequest.parse("completions", body))

    assert (decision.prompt_tokens, decision.prompt_reason) == (0, "no_tokenizer")
    assert decision.uncached_tokens == len(body) // 4


async def test_another_strategy_can_be_used_and_the_configured_one_again() -> None:
    """From the next request on; a request that was prepared under the old one is decided by it."""
    router = a_router(a_pool(), strategy="round_robin")
    prepared = await router.prepare(_request())
    router.use_strategy("Least-Loaded")
    ordered = (await _decided(router, _request())).strategy
    before = router.attempt(prepared).decision.strategy
    router.use_strategy(None)

    assert (before, ordered) == ("round_robin", "least_loaded")
    assert (await _decided(router, _request())).strategy == "round_robin"


async def test_using_a_strategy_does_not_offer_it_to_clients() -> None:
    """What a request may ask for by name stays as it was configured."""
    pool = a_pool()
    router = a_router(pool, strategy="round_robin", offered=("round_robin",))
    router.use_strategy("kv_aware")

    assert (await _decided(router, _request())).strategy == "kv_aware"
    with pytest.raises(BadRequest, match="kv_aware is not offered here"):
        await router.prepare(_request(), strategy="kv_aware")


async def test_an_unknown_strategy_is_not_used() -> None:
    """And nothing changes."""
    router = a_router(a_pool(), strategy="round_robin")

    with pytest.raises(ValueError, match="no strategy is named 'nope'"):
        router.use_strategy("nope")
    assert router.strategy == "round_robin"
