"""Counts of predictions add up, and say what share they cover."""

from __future__ import annotations

from collections import Counter

from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE, PredictionCounts


def test_they_add_up() -> None:
    """Every one of them."""
    counts = PredictionCounts(
        Counter(usage=1), Counter(usage=100), Counter(image=1), Counter(usage=64), Counter(usage=48),
        over_tokens=16, evicted_tokens=16, under=1, under_tokens=Counter(host=1), miscounted=1, confirmed=2,
        unconfirmed=Counter(salted=1),
    )  # fmt: skip
    total = PredictionCounts()
    for _ in range(2):
        total.add(counts)

    assert total.by_source == {USAGE: 2}
    assert (total.over_tokens, total.confirmed, total.unconfirmed, total.under_tokens) == (
        32,
        4,
        {"salted": 2},
        {"host": 2},
    )


def test_coverage_is_a_share_of_all_prompt_tokens() -> None:
    """Nothing of nothing."""
    counts = PredictionCounts(prompt_tokens=Counter({USAGE: 600, COUNTERS: 300, UNVERIFIED: 100}))

    assert [counts.coverage(source) for source in (USAGE, COUNTERS, UNVERIFIED)] == [0.6, 0.3, 0.1]
    assert PredictionCounts().coverage(USAGE) == 0.0
