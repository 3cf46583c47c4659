"""Candidates carry the numbers that the books and the index hold."""

from __future__ import annotations

import json

import pytest

from gateway.fleet.inflight import InFlight
from gateway.fleet.load_report import LoadReport
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier, TierTokens
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.candidates import BlockSizes, Candidates, credited_work
from router_strategies._cost import Rates, Work, prefill_seconds
from tests.gateway.examples import MODEL, Clock, Events, a_pool, a_router


@pytest.mark.parametrize(
    ("confirmed", "routed", "trust", "work"),
    [
        (TierTokens(), 0, 1.0, Work(1000, 0)),
        (TierTokens(640), 0, 1.0, Work(360, 640)),
        (TierTokens(640), 0, 0.5, Work(680, 320)),
        (TierTokens(640), 800, 1.0, Work(200, 800)),
        (TierTokens(0, 512), 0, 1.0, Work(488, 512, 512)),
        (TierTokens(64, 256, 512), 0, 1.0, Work(488, 512, 192, 256)),
    ],
)
def test_credit_is_what_is_believed_or_on_its_way(confirmed: TierTokens, routed: int, trust: float, work: Work) -> None:
    """The more of both; lower tiers are loaded only where they are what counts."""
    assert credited_work(1000, confirmed.split(), routed, trust) == work


async def test_a_candidate_shows_load_reports_and_speed() -> None:
    """Every field has its source."""
    pool = a_pool("a=http://a:1?speed=2,b=http://b:1")
    (fast, _) = pool.replicas
    fast.reported(LoadReport(block_size=32, kv_blocks=256), 80.0)
    clock, routed, events, speeds = Clock(), Routed(), Events(), Speeds()
    router = a_router(pool, clock=clock, routed=routed, speeds=speeds, strategy="round_robin", always_read=True)
    body = json.dumps({"model": MODEL, "prompt": list(range(320)), "stream": True}).encode()
    prepared = await router.prepare(InferenceRequest.parse("completions", body))
    attempts = [router.attempt(prepared) for _ in range(3)]
    ours = [a for a in attempts if a.server_id == "a"]
    fast.reported(LoadReport(running=1, waiting=1, kv_usage=0.5, block_size=32, kv_blocks=256), 90.0)

    candidates = Candidates(routed, events, BlockSizes(events), speeds).build(prepared, list(pool.replicas), clock.now)
    a, b = candidates

    assert (a.id, a.speed, a.inflight, a.sharing) == ("a", 2.0, len(ours), len(ours))
    assert (a.running, a.waiting, a.kv_usage, a.reported_age_s) == (1, 1, 0.5, 10.0)
    assert (b.running, b.waiting, b.kv_usage, b.reported_age_s) == (-1, -1, -1, -1)
    assert (a.expected_tokens, a.l0_tokens) == (288, 0)
    assert (a.kv_blocks_capacity, b.kv_blocks_capacity) == (256, 0)
    assert 10 < a.kv_blocks_used < 128
    assert a.prefill_s == pytest.approx(prefill_seconds(Work(32, 288), Rates(), 2.0))


async def test_whoever_decodes_there_slows_a_prefill_down() -> None:
    """Two sequences past their first token, at a replica of double speed."""
    pool = a_pool("a=http://a:1?speed=2")
    (replica,) = pool.replicas
    router = a_router(pool)
    prepared = await router.prepare(InferenceRequest.parse("completions", b'{"model": "tiny", "prompt": [1, 2, 3]}'))
    events = Events()
    builder = Candidates(Routed(), events, BlockSizes(events), Speeds(Rates(decoding_s=0.001)))
    (idle,) = builder.build(prepared, [replica], 100.0)
    for _ in range(2):
        decoding = InFlight(0.1, 0.1, 9, 1.0, True, 100.0)
        replica.workload.dispatch(decoding, 100.0)
        replica.workload.first_byte(decoding, 100.0)
    (busy,) = builder.build(prepared, [replica], 100.0)

    assert busy.prefill_s - idle.prefill_s == pytest.approx(2 * 0.001 / 2)


async def test_requests_that_others_sent_count_as_ours_do() -> None:
    """The replica reports six where one is ours: of five strangers half wait, each for a prefill like ours."""
    pool = a_pool("a=http://a:1?speed=2")
    (replica,) = pool.replicas
    clock, routed, events, speeds = Clock(), Routed(), Events(), Speeds()
    router = a_router(pool, clock=clock, routed=routed, speeds=speeds, strategy="kv_aware")
    body = json.dumps({"model": MODEL, "prompt": list(range(3200)), "stream": True}).encode()
    prepared = await router.prepare(InferenceRequest.parse("completions", body))
    attempt = router.attempt(prepared)
    builder = Candidates(routed, events, BlockSizes(events), speeds)
    (alone,) = builder.build(prepared, [replica], clock.now)
    replica.reported(LoadReport(running=3, waiting=3, kv_usage=0.75, block_size=16, kv_blocks=1000), clock.now)

    (crowded,) = builder.build(prepared, [replica], clock.now)

    assert (crowded.inflight, crowded.decoding, crowded.kv_blocks_used) == (5, 2, 750)
    assert crowded.promised_s - alone.promised_s == pytest.approx(2.5 * attempt.decision.prefill_s)
    assert crowded.inflight_tokens - alone.inflight_tokens == 8000


def test_block_sizes_come_from_events_then_metrics_then_the_default() -> None:
    """The nearest truth wins."""
    pool = a_pool()
    a, b = pool.replicas
    b.reported(LoadReport(block_size=32), 0.0)
    sizes = BlockSizes(Events({"a": {Tier.L0: 768, Tier.L1: 256}}))

    assert (sizes.l0(a), sizes.l0(b), sizes.among([a])) == (768, 32, {768, 256})
    assert sizes.among([a, b]) == {768, 256, 32}
    assert BlockSizes(Events()).l0(a) == 16
