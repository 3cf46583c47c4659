"""BusySpan: how long a time closed-loop sessions begin in."""

from __future__ import annotations

import pytest

from loadtest.replay.busy_span import BusySpan
from loadtest.replay.offered_work import Portion


def span(sessions: int, turns: int, gap_s: float) -> BusySpan:
    """Sessions that begin evenly, and ask for a second of work every ``gap_s``."""
    begins = [session / (sessions - 1) for session in range(sessions)]
    return BusySpan(begins, [Portion(s, turn * gap_s, 1.0) for s in range(sessions) for turn in range(turns)])


def test_of_short_sessions_the_rate_is_work_over_span() -> None:
    """10,000 s of work."""
    short = span(1000, 10, 0.001)
    assert short.rate(1000.0) == pytest.approx(10.0, rel=0.01)
    assert short.seconds(10.0) == pytest.approx(1000.0, rel=0.02)


def test_long_sessions_must_begin_closer_together() -> None:
    """Where they last half the span, half of the work is done at the full rate, between the times in which the fleet
    gets busy and ends; the other half at two thirds of it, on average.
    """
    long = span(200, 50, 10.0)
    full = 10_000 / 1000
    assert long.rate(1000.0) == pytest.approx(full * (1 / 2 + 1 / 2 * 2 / 3), rel=0.05)
    assert long.seconds(full * 5 / 6) == pytest.approx(1000.0, rel=0.05)
    assert long.seconds(6.0) < 10_000 / 6.0


def test_sessions_never_begin_within_less_than_half_their_length() -> None:
    """However busy they are to keep the fleet."""
    long = span(100, 51, 10.0)
    assert long.seconds(1e6) == pytest.approx(250.0)
    assert long.rate(long.seconds(1e6)) < 1e6


def test_a_single_request_is_no_division_by_zero() -> None:
    """It takes no time to begin."""
    one = BusySpan([0.0], [Portion(0, 0.0, 1.0)])
    assert one.seconds(2.0) == pytest.approx(0.5, rel=0.001)
