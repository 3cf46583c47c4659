"""Figures of outcomes made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.figures import Figures
from loadtest.replay.outcome import Outcome, QueueSample, Served
from tests.loadtest.replay.hand_made import FIGURES, served


def outcome(*requests: Served, queues: tuple[QueueSample, ...] = (), errors: int = 0) -> Outcome:
    return Outcome("kv_aware", "chats", 1, requests, queues, decisions=200, decide_s=0.5, errors=errors)


def test_hits_are_shares_of_the_prompt_tokens_by_tier() -> None:
    """Of tokens, not of requests; the tiers add up."""
    first = Served(0.0, 1.0, 2.0, 0, 100, 10, 50, 20, 0, 1.0)
    second = Served(1.0, 2.0, 3.0, 0, 300, 10, 0, 40, 60, 1.0)

    figures = Figures.of(outcome(first, second), warmup=0.0, bound=0.8)

    assert (figures.hit_l0, figures.hit_l1, figures.hit_l2) == (0.125, 0.15, 0.15)
    assert figures.hit == pytest.approx(0.425)
    assert figures.bound == 0.8


def test_the_first_requests_only_fill_the_caches() -> None:
    """They and the queues of their time are left out."""
    requests = [served(float(second), 100.0 if second < 2 else 1.0) for second in range(20)]
    queues = (QueueSample(1.0, [900, 0]), QueueSample(5.0, [30, 10]))

    figures = Figures.of(outcome(*requests, queues=queues), warmup=0.1)

    assert (figures.counted, figures.ttft_mean_s, figures.longest_queue_tokens) == (18, 1.0, 30.0)


def test_percentiles_of_the_ttft() -> None:
    """Each is a value that was there."""
    figures = Figures.of(outcome(*(served(0.0, ms / 1000) for ms in range(100))), warmup=0.0)

    assert (figures.ttft_p50_s, figures.ttft_p90_s, figures.ttft_p99_s) == (0.05, 0.09, 0.099)


def test_good_is_what_waited_no_longer_than_the_slo() -> None:
    """A long prompt may take what it takes alone; who could be sent nowhere was not served well."""
    requests = served(0.0, 2.0), served(1.0, 2.1), served(2.0, 6.9, alone_s=5.0)

    assert Figures.of(outcome(*requests), warmup=0.0, slo_s=2.0).goodput == pytest.approx(2 / 3, rel=1e-5)
    assert Figures.of(outcome(*requests, errors=1), warmup=0.0, slo_s=2.0).goodput == 0.5


def test_imbalance_is_of_the_moments_when_anything_waits() -> None:
    """Standard deviation over mean: 1 where one of two has all; an idle fleet says nothing."""
    queues = (QueueSample(0.0, [40, 0]), QueueSample(1.0, [0, 0]), QueueSample(2.0, [30, 30]))

    figures = Figures.of(outcome(served(0.0, 1.0), queues=queues), warmup=0.0)

    assert figures.imbalance == 0.5
    assert figures.longest_queue_tokens == pytest.approx(70 / 3, rel=1e-5)


def test_decisions_a_second_of_real_time() -> None:
    """The one figure of the clock on the wall."""
    assert Figures.of(outcome(served(0.0, 1.0))).decisions_s == 400.0


def test_a_run_that_served_nobody_has_no_figures() -> None:
    """Rather than a TTFT of 0."""
    with pytest.raises(ValueError, match="no request was served"):
        Figures.of(outcome(errors=9))


@given(st.lists(st.floats(0.001, 1e6), min_size=1), st.floats(0, 1))
def test_figures_read_back_the_same(ttfts: list[float], bound: float) -> None:
    """So a run from a file counts like one just made."""
    figures = Figures.of(outcome(*(served(0.0, ttft, prompt=7, l0=3) for ttft in ttfts)), bound=bound)

    assert Figures.read(figures.words()) == figures


@pytest.mark.parametrize("words", [[], ["1"], ["x"] * len(FIGURES.words()), [*FIGURES.words(), "1"]])
def test_other_words_are_no_figures(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Figures.read(words)
