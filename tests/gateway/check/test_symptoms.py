"""Symptoms: what evidence and state say, with thresholds that chance does not reach."""

from __future__ import annotations

from collections import Counter

from gateway.check.symptoms import (
    Symptom,
    of_coverage,
    of_discovery,
    of_evidence,
    of_replica,
    of_server,
    of_tokenizer,
)
from gateway.fleet.load_report import LoadReport
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.kv.evidence import Evidence
from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import Tier
from gateway.kv.trust import Doubt
from loadtest.replica import ReplicaOptions
from tests.fakes.waiting import eventually
from tests.gateway.check.proving import FAST, proving


def _replica() -> Replica:
    pool = ReplicaPool()
    pool.reconcile(parse_servers("a=http://127.0.0.1:1"))
    return Replica(next(iter(pool.servers)), ReplicaKey("m", "a"))


def _of(evidence: Evidence, stats: FeedStats | None = None) -> dict[str, Symptom]:
    return {symptom.name: symptom for symptom in of_evidence(_replica(), evidence, stats)}


def test_good_evidence_and_a_few_misses_are_no_symptom() -> None:
    good = Evidence(100, 100, 50_000, 50_500, 90_000, over_tokens=800, under_tokens=1300, confirmed=40)

    assert _of(good, FeedStats(since=0)) == {}


def test_prompts_counted_otherwise_are_a_symptom_once_they_are_more_than_a_few() -> None:
    assert _of(Evidence(requests=10, miscounted=2)) == {}
    assert _of(Evidence(requests=100, miscounted=4)) == {}
    symptom = _of(Evidence(requests=10, miscounted=4))["template_differs"]
    assert symptom.suspicious_s == 0
    assert "40 %" in symptom.detail


def test_one_new_prompt_that_was_not_told_of_is_suspicious_and_many_are_a_finding() -> None:
    one = _of(Evidence(requests=9, confirmed=5, unconfirmed=1, unconfirmed_kinds=Counter(salted=1)))["unconfirmed"]
    many = _of(Evidence(requests=9, unconfirmed=5, unconfirmed_kinds=Counter(plain=5)))["unconfirmed"]

    assert one.suspicious_s == 0
    assert one.lasts_s == float("inf")
    assert "salted" in one.detail
    assert many.lasts_s < 10


def test_over_prediction_is_a_finding_only_where_it_lowers_trust() -> None:
    evidence = Evidence(10, 10, 1000, 500, 2000, over_tokens=500)
    doubted = FeedStats(doubt=Doubt(0.5, "over_predicted"))

    assert _of(evidence, FeedStats())["over_predicted"].lasts_s == float("inf")
    assert _of(evidence, doubted)["over_predicted"].lasts_s < 10


def test_more_than_predicted_is_a_symptom_only_where_events_tell_of_everything() -> None:
    evidence = Evidence(20, 20, 0, 4000, 10_000, under_tokens=4000)

    assert "under_predicted" in _of(evidence, FeedStats(since=0, block_sizes={Tier.L0: 16}))
    assert _of(evidence, FeedStats(since=0, block_sizes={Tier.L0: 16, Tier.L1: 256})) == {}
    assert _of(evidence, FeedStats(since=4)) == {}
    assert _of(evidence) == {}


def test_usage_that_never_tells_is_a_symptom() -> None:
    assert "details_off" in _of(Evidence(requests=6, unverified=Counter(no_details=6)))
    assert _of(Evidence(requests=12, compared=6, unverified=Counter(no_details=6))) == {}


def test_coverage_is_low_only_where_next_to_nothing_is_verified() -> None:
    assert [s.name for s in of_coverage([Evidence(requests=100)])] == ["coverage_low"]
    assert list(of_coverage([Evidence(requests=100, confirmed=5)])) == []
    assert list(of_coverage([Evidence(requests=10)])) == []
    assert [s.name for s in of_coverage([Evidence(requests=32)])] == ["coverage_low"]  # halved just now


def test_coverage_is_not_asked_of_replicas_whose_events_nobody_follows() -> None:
    assert list(of_coverage([Evidence(requests=60, unverified=Counter(no_events=60))])) == []
    both = [Evidence(requests=60, unverified=Counter(no_events=60)), Evidence(requests=60)]
    assert [s.detail for s in of_coverage(both)] == ["0 % of requests are verified"]


def test_what_encodes_prompts_may_be_a_symptom() -> None:
    assert [s.name for s in of_tokenizer("m", "RemoteEncoder")] == ["tokenizer_remote"]
    assert [s.name for s in of_tokenizer("m", "AbsentEncoder")] == ["tokenizer_absent"]
    assert list(of_tokenizer("m", "LocalEncoder")) == []


def test_a_server_that_is_down_asleep_or_empty_is_a_symptom() -> None:
    server = _replica().server
    assert [s.name for s in of_server(server)] == ["unreachable"]
    server.probe_answered()
    assert [s.name for s in of_server(server)] == ["no_model"]
    server.slept(True)
    assert [s.name for s in of_server(server)] == ["asleep"]


def test_a_server_that_is_starting_is_no_symptom() -> None:
    """Whoever found it says that it is not ready, and it never was. One that was and is not any more is."""
    server = _replica().server
    server.held_back = True
    starting = list(of_server(server))
    server.probe_answered()
    for _ in range(3):
        server.probe_missed("gone")

    assert starting == []
    assert [s.name for s in of_server(server)] == ["unreachable"]


async def test_a_healthy_replica_has_no_symptom() -> None:
    async with proving() as proven:
        assert list(of_replica(proven.replicas["a"], proven.knowledge)) == []


async def test_what_probes_and_feed_show_is_named() -> None:
    async with proving(ReplicaOptions(speeds=FAST, replay_endpoint=None), probe_interval_s="60") as proven:
        replica, knowledge = proven.replicas["a"], proven.knowledge
        await proven.caller.complete(replica, "simulated", [*range(300, 360)])
        stats = knowledge.stats(replica)
        assert stats is not None
        await eventually(lambda: stats.l0_block_size)
        replica.reported(LoadReport(running=0, block_size=32, kv_tokens=16, prefix_caching=False), 0.0)
        stats.late_s = 5.0
        knowledge.memory.drop(replica.key)
        names = {symptom.name for symptom in of_replica(replica, knowledge)}

        assert names >= {"metrics_unknown", "prefix_caching_off", "replay_absent", "events_late", "block_size_differs"}


async def test_an_index_that_lacks_what_was_told_is_named() -> None:
    async with proving() as proven:
        replica, knowledge = proven.replicas["a"], proven.knowledge
        await proven.caller.complete(replica, "simulated", [*range(300, 900)])
        await eventually(lambda: knowledge.memory.owned(replica.key, Tier.L0) > 30)
        knowledge.memory.drop(replica.key)

        assert [symptom.name for symptom in of_replica(replica, knowledge)] == ["index_lost"]


async def test_no_events_are_named_unless_none_are_wanted() -> None:
    silent = ReplicaOptions(speeds=FAST, kv_events=False)
    async with proving(silent) as proven:
        assert [s.name for s in of_replica(proven.replicas["a"], proven.knowledge)] == ["events_off"]
    async with proving(silent, kv_events="off") as proven:
        assert list(of_replica(proven.replicas["a"], proven.knowledge)) == []


def test_replicas_that_were_not_looked_up_for_long_are_a_symptom_of_the_whole() -> None:
    """Longer than it takes until they should be looked up again."""
    (stale,) = of_discovery(34.0, 3.0, "it answers 403")

    assert list(of_discovery(32.0, 3.0, "it answers 403")) == list(of_discovery(80.0, 60.0, "")) == []
    assert (stale.name, stale.replica_id, stale.detail) == ("discovery_stale", "", "for 34 s: it answers 403")
