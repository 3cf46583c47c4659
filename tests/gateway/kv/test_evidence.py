"""What requests showed fades, all of it alike."""

from __future__ import annotations

from collections import Counter

from gateway.kv.evidence import Evidence


def test_nothing_seen_says_nothing_against() -> None:
    """No share of nothing."""
    assert Evidence().over_share == 0.0


def test_halving_keeps_shares() -> None:
    """Every count weighs half; what is left of old reasons vanishes in time."""
    evidence = Evidence(
        8, 4, 1000, 800, 2000, 300, 100, 100, Counter(no_usage=4), 2, 2, 1, Counter(salted=1),
    )  # fmt: skip
    before = evidence.over_share
    evidence.halve()

    assert evidence == Evidence(
        4, 2, 500, 400, 1000, 150, 50, 50, Counter({"no_usage": 2.0}), 1, 1, 0.5, Counter({"salted": 0.5})
    )
    assert evidence.over_share == before == 0.2
    for _ in range(12):
        evidence.halve()
    assert (dict(evidence.unverified), dict(evidence.unconfirmed_kinds)) == ({}, {})


def test_two_are_one() -> None:
    """Every count of both."""
    evidence = Evidence(1, 1, 100, 80, 200, 20, 0, 10, Counter(no_usage=1), 1, 0, 1, Counter(salted=1))
    evidence.add(Evidence(2, 1, 100, 90, 200, 10, 0, 0, Counter(no_details=1), 0, 1, 1, Counter(plain=1)))

    assert evidence == Evidence(
        3, 2, 200, 170, 400, 30, 0, 10, Counter(no_usage=1, no_details=1), 1, 1, 2, Counter(salted=1, plain=1)
    )
