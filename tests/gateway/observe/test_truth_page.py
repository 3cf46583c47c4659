"""One page of a replica's truth, and one of many."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.evidence import Evidence
from gateway.observe.truth_page import merged_truth, truth_page
from gateway.router.prediction_counts import PredictionCounts

_NUMBERS = st.integers(0, 10_000)


def _counters(*names: str) -> st.SearchStrategy[Counter[str]]:
    return st.dictionaries(st.sampled_from(names), st.integers(1, 10_000)).map(Counter)


@st.composite
def _verified(draw: st.DrawFn) -> PredictionCounts:
    """Of a replica of which at least one prediction was verified."""
    sources = _counters("usage", "counters", "unverified")
    return PredictionCounts(
        by_source=draw(sources) + Counter(usage=1),
        prompt_tokens=draw(sources),
        unverified=draw(_counters("no_usage", "unsettled")),
        predicted_tokens=draw(_counters("usage", "counters")),
        actual_tokens=draw(_counters("usage", "counters")),
        over_tokens=draw(_NUMBERS),
        evicted_tokens=draw(_NUMBERS),
        under=draw(_NUMBERS),
        under_tokens=draw(_counters("device", "host")),
        miscounted=draw(_NUMBERS),
        confirmed=draw(_NUMBERS),
        unconfirmed=draw(_counters("plain", "salted")),
        estimated_tokens=draw(_NUMBERS.map(lambda number: number + 1)),
        estimated_compared_tokens=draw(_NUMBERS),
        estimated_found_tokens=draw(_NUMBERS),
    )


def _one(tokens: int, *, over: int = 0, usage: bool = True) -> dict[str, Any]:
    """Of a replica that had one prompt, of which 0.9 were predicted."""
    source = "usage" if usage else "unverified"
    counts = PredictionCounts(Counter({source: 1}), Counter({source: tokens}))
    if usage:
        counts.predicted_tokens["usage"] = tokens * 9 // 10
        counts.actual_tokens["usage"] = tokens * 9 // 10 - over
        counts.over_tokens = over
    return truth_page(counts, None)


def test_shares_of_a_sum_are_not_the_mean_of_shares() -> None:
    """A gateway with a tenth of the work weighs a tenth."""
    merged: dict[str, Any] = merged_truth([_one(9000, over=90), _one(1000, usage=False)])

    assert merged["requests"] == {"usage": 1, "unverified": 1}
    assert merged["coverage"] == {"usage": 0.9, "counters": 0.0, "unverified": 0.1}
    assert merged["accuracy"]["error"] == 0.01
    assert merged["accuracy"]["over_tokens"] == 90


def test_both_or_neither() -> None:
    """Where none of them verified anything there is no accuracy; where none predicted anything there is nothing."""
    unverified = merged_truth([_one(100, usage=False), {}, _one(50, usage=False)])

    assert unverified["prompt_tokens"] == {"unverified": 150}
    assert not {"coverage", "accuracy", "lately"} & unverified.keys()
    assert merged_truth([{}, {}]) == merged_truth([]) == {}


def test_an_estimate_has_a_part_of_its_own() -> None:
    """What of it was found, where usage told; none where nothing was estimated."""
    counts = PredictionCounts(estimated_tokens=3000, estimated_compared_tokens=2000, estimated_found_tokens=1500)

    assert truth_page(counts, None)["l2_estimate"] == {"tokens": 3000, "compared_tokens": 2000, "found_tokens": 1500}
    assert "l2_estimate" not in truth_page(PredictionCounts(), None)


def test_what_was_lately() -> None:
    """A share over what both saw, and of those alone who saw something."""
    sure = Evidence(requests=30, compared=30, predicted_tokens=3000, confirmed=2)
    wrong = Evidence(requests=10, compared=8, predicted_tokens=1000, over_tokens=300, evicted_tokens=100, miscounted=1)
    wrong.unconfirmed_kinds["salted"] = 3
    pages = [truth_page(PredictionCounts(), evidence) for evidence in (sure, None, wrong)]

    assert merged_truth(pages)["lately"] == {
        "requests": 40.0,
        "compared": 38.0,
        "predicted_tokens": 4000.0,
        "over_tokens": 300.0,
        "over_tokens_evicted": 100.0,
        "over_share": 0.05,
        "miscounted": 1.0,
        "confirmed": 2.0,
        "unconfirmed": {"salted": 3.0},
    }


@given(st.lists(_verified(), min_size=1, max_size=3))
def test_the_page_of_many_is_the_page_of_all_counts(each: list[PredictionCounts]) -> None:
    """Nothing that is shown is lost on the way, through JSON too."""
    total = PredictionCounts()
    for counts in each:
        total.add(counts)
    pages = json.loads(json.dumps([truth_page(counts, None) for counts in each]))

    assert merged_truth(pages) == truth_page(total, None)
