"""least_loaded: the shortest queue in seconds, then in requests."""

from __future__ import annotations

from router_strategies import Candidate, RouteRequest, load


def test_least_promised_work_wins() -> None:
    """Seconds of promised prefill come before the number of requests."""
    fleet = [Candidate("many", promised_s=1.0, inflight=9), Candidate("long", promised_s=2.0, inflight=1)]

    assert load("least_loaded").select(RouteRequest(5), fleet).candidate.id == "many"


def test_then_fewest_requests() -> None:
    """With no prefill queued, the one with fewer requests in flight."""
    fleet = [Candidate("three", inflight=3), Candidate("two", inflight=2)]

    assert load("least_loaded").select(RouteRequest(5), fleet).candidate.id == "two"
