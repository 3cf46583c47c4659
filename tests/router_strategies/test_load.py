"""How busy a replica is, and the least busy one."""

from __future__ import annotations

from random import Random

from router_strategies import Candidate
from router_strategies._load import least_of, load_s


def test_seconds_promised_and_requests_in_flight() -> None:
    """A fast replica is less burdened by a request."""
    assert load_s(Candidate("a", promised_s=2.0, inflight=3), 0.5) == 4.0
    assert load_s(Candidate("a", promised_s=2.0, inflight=3, speed=2.0), 0.5) == 3.0


def test_the_least_and_of_equal_ones_any() -> None:
    """The same one again with the same seed."""
    fleet = [Candidate(id_) for id_ in "abc"]

    assert least_of(fleet, [2.0, 1.0, 3.0], Random(1)).id == "b"
    assert {least_of(fleet, [1.0, 2.0, 1.0], Random(seed)).id for seed in range(20)} == {"a", "c"}
    assert least_of(fleet, [1.0] * 3, Random(5)) is least_of(fleet, [1.0] * 3, Random(5))
