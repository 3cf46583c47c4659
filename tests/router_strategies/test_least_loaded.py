"""least_loaded: the shortest queue in seconds, with a little for each request in flight."""

from __future__ import annotations

from collections import Counter

from router_strategies import Candidate, RouteRequest, load


def _chosen(fleet: list[Candidate]) -> str:
    return load("least_loaded").select(RouteRequest(5), fleet).candidate.id


def test_least_promised_work_wins() -> None:
    """One long prompt is more than nine short ones."""
    fleet = [Candidate("many", promised_s=1.0, inflight=9), Candidate("long", promised_s=2.0, inflight=1)]

    assert _chosen(fleet) == "many"


def test_then_fewest_requests() -> None:
    """With no prefill queued, the one with fewer requests in flight."""
    assert _chosen([Candidate("three", inflight=3), Candidate("two", inflight=2)]) == "two"


def test_many_that_decode_outweigh_a_moment_of_prefill() -> None:
    """A hundred requests in flight slow a new one by more than a tenth of a second of queue."""
    assert _chosen([Candidate("decoding", inflight=100), Candidate("prefilling", promised_s=0.1, inflight=1)]) == (
        "prefilling"
    )


def test_of_idle_replicas_the_faster_one() -> None:
    """And with as many requests as it is faster, either."""
    assert _chosen([Candidate("slow", speed=0.5), Candidate("fast")]) == "fast"

    strategy, chosen = load("least_loaded", {"seed": 1}), Counter[str]()
    for _ in range(100):
        fleet = [Candidate("slow", speed=0.5), Candidate("fast", inflight=1)]
        chosen[strategy.select(RouteRequest(5), fleet).candidate.id] += 1

    assert set(chosen) == {"slow", "fast"}


def test_what_is_not_reported_is_neither_idle_nor_full() -> None:
    """A fresh replica without metrics and one whose metrics say it is empty, or full, share what comes."""
    strategy, chosen = load("least_loaded", {"seed": 1}), Counter[str]()
    for _ in range(300):
        fleet = [
            Candidate("unknown"),
            Candidate("idle", waiting=0.0, running=0.0, kv_usage=0.0, reported_age_s=0.1),
            Candidate("full", waiting=50.0, running=100.0, kv_usage=1.0, reported_age_s=0.1),
        ]
        chosen[strategy.select(RouteRequest(5), fleet).candidate.id] += 1

    assert all(count > 70 for count in chosen.values()), chosen


def test_misses_go_to_the_idle_replica_however_full_its_cache_is() -> None:
    """Nothing is known of the prompt anywhere: ten requests in flight against none."""
    fleet = [
        Candidate("small_cache", promised_s=1.0, inflight=10),
        Candidate("large_cache", kv_blocks_used=900, kv_blocks_capacity=1_000),
    ]

    assert _chosen(fleet) == "large_cache"
