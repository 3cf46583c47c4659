"""What must be computed, and how long it takes."""

from __future__ import annotations

import pytest

from loadtest.replica.scheduler import Speeds
from loadtest.rivals import View
from loadtest.rivals._prefill import PrefillTimes, uncached_tokens
from tests.loadtest.rivals.hand_made import asked_tokens


@pytest.mark.parametrize(("cached", "uncached"), [(0, 1000), (300, 700), (300.2, 700), (1000, 1), (5000, 1)])
def test_uncached_tokens_are_at_least_one(cached: float, uncached: int) -> None:
    """And a part of a token is a token."""
    assert uncached_tokens(asked_tokens(), cached) == uncached


def test_seconds_are_those_of_the_engine() -> None:
    """600 tokens at 1,000 a second from length 400 on, where 7,000 double the cost: 0.6 * (1 + 0.1); loads; a step."""
    times = PrefillTimes(Speeds(prefill_tokens_per_s=1000.0, attention_tokens=7000.0, step_s=0.25), 1000.0, 500.0)
    view = View(0, l0_tokens=200, l1_tokens=100, l2_tokens=100)

    assert times.seconds(asked_tokens(), view) == pytest.approx(0.66 + 0.25 + 0.1 + 0.2)
