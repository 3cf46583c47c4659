"""How far a replica's events are believed."""

from __future__ import annotations

import random

import pytest

from gateway.kv.trust import LATE_S, NO_DOUBT, Doubt, FeedState, Reliability, judged


def test_only_a_fresh_feed_is_believed_fully() -> None:
    """Half while it may be wrong, not at all without a connection."""
    assert [(state.label, state.trust) for state in FeedState] == [("fresh", 1.0), ("suspect", 0.5), ("blind", 0.0)]


@pytest.mark.parametrize(
    ("state", "late_s", "doubt", "trust", "reason"),
    [
        (FeedState.FRESH, 0.0, NO_DOUBT, 1.0, "fresh"),
        (FeedState.SUSPECT, 9.0, NO_DOUBT, 0.5, "suspect"),
        (FeedState.BLIND, 9.0, Doubt(0.2, "over_predicted"), 0.0, "blind"),
        (FeedState.FRESH, LATE_S + 0.1, NO_DOUBT, 0.5, "suspect: late"),
        (FeedState.FRESH, LATE_S + 0.1, Doubt(0.2, "over_predicted"), 0.2, "suspect: over_predicted"),
        (FeedState.SUSPECT, 0.0, Doubt(0.2, "over_predicted"), 0.2, "suspect: over_predicted"),
        (FeedState.FRESH, 0.0, Doubt(0.5, "gaps"), 0.5, "suspect: gaps"),
    ],
)
def test_the_least_counts(state: FeedState, late_s: float, doubt: Doubt, trust: float, reason: str) -> None:
    """And its reason is told."""
    assert judged(state, late_s, doubt) == (trust, reason)


def misses_until_distrust(reliability: Reliability, *, share: float = 1.0) -> int:
    """How many predictions in a row, ``share`` of each not there, it takes."""
    for number in range(1, 1000):
        reliability.compared(1000, int(1000 * share), 1000)
        if reliability.doubt.word:
            return number
    return 1000


@pytest.mark.parametrize("good_before", [0, 1, 1000])
def test_who_always_claims_too_much_is_found_out_soon(good_before: int) -> None:
    """By the fifth request at the latest, whatever was good before; one miss condemns nobody."""
    reliability = Reliability(0.0)
    for _ in range(good_before):
        reliability.compared(1000, 0, 1000)

    assert 1 < misses_until_distrust(reliability) <= 5
    assert reliability.doubt.trust <= 0.5


def test_a_little_too_much_is_found_out_later() -> None:
    """A third missing of everything is certain after some more; a tenth is borne."""
    assert 5 < misses_until_distrust(Reliability(0.0), share=0.34) < 30
    assert misses_until_distrust(Reliability(0.0), share=0.1) == 1000


def test_trust_is_what_part_was_there() -> None:
    """Of what was claimed lately, and never nothing: a claim can still be put to the test."""
    half, nothing = Reliability(0.0), Reliability(0.0)
    for _ in range(30):
        half.compared(1000, 500, 1000)
        nothing.compared(1000, 1000, 1000)

    assert half.doubt.trust == pytest.approx(0.5)
    assert half.doubt.word == "over_predicted"
    assert nothing.doubt == (0.1, "over_predicted")


def test_good_predictions_restore_it() -> None:
    """Some, not one: and then it takes several misses again."""
    reliability = Reliability(0.0)
    for _ in range(100):
        reliability.compared(1000, 1000, 1000)
    good = 0
    while reliability.doubt.word:
        reliability.compared(1000, 0, 1000)
        good += 1

    assert 5 < good <= 25
    assert misses_until_distrust(reliability) > 1


def test_time_restores_it_where_nothing_is_claimed() -> None:
    """In a quarter of an hour."""
    reliability = Reliability(0.0)
    misses_until_distrust(reliability)
    reliability.settle(0, 60.0)
    soon = reliability.doubt.word
    reliability.settle(0, 900.0)

    assert (soon, reliability.doubt) == ("over_predicted", NO_DOUBT)


def test_evictions_now_and_then_are_borne() -> None:
    """Every thirtieth prediction fails as a whole, at random, for ever: no alarm in 20,000."""
    rng, reliability = random.Random(5), Reliability(0.0)
    for _ in range(20_000):
        reliability.compared(1000, 1000 if rng.random() < 0.033 else 0, 1200)
        assert not reliability.doubt.word


def test_small_claims_weigh_little() -> None:
    """One block of a long prompt that is gone is no scandal."""
    reliability = Reliability(0.0)
    for _ in range(20):
        reliability.compared(16, 16, 4000)

    assert reliability.doubt == NO_DOUBT


def test_a_stream_full_of_gaps_is_doubtful_for_a_while() -> None:
    """Three soon after one another; what lies before its beginning does not count."""
    reliability = Reliability(0.0, gaps=50)
    reliability.settle(51, 1.0)
    one = reliability.doubt
    reliability.settle(54, 2.0)
    many = reliability.doubt
    reliability.settle(54, 100.0)

    assert (one, many, reliability.doubt) == (NO_DOUBT, Doubt(0.5, "gaps"), NO_DOUBT)
