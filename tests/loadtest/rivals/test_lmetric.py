"""LMetric, both readings."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.lmetric import LmetricA, LmetricB
from tests.loadtest.rivals.hand_made import asked_tokens


@pytest.mark.parametrize(("cached", "chosen"), [(700, 0), (600, 1)])
def test_b_multiplies_this_requests_tokens_with_requests(cached: int, chosen: int) -> None:
    """300 * 3 = 900 against 1000 * 1; at 400 * 3 it is 1200. What waits there does not matter."""
    views = [View(0, l0_tokens=cached, inflight=2, pending_tokens=90_000), View(1)]

    assert LmetricB().select(asked_tokens(), views).view.number == chosen


@pytest.mark.parametrize(("waiting_tokens", "chosen"), [(190, 0), (210, 1)])
def test_a_adds_the_tokens_that_wait(waiting_tokens: int, chosen: int) -> None:
    """(300 + W) * 2 against 1000 * 1."""
    views = [View(0, l0_tokens=700, inflight=1, pending_tokens=waiting_tokens), View(1)]

    assert LmetricA().select(asked_tokens(), views).view.number == chosen


def test_lower_tiers_are_credited() -> None:
    """1000 - 100 - 0.8 * 200 - 0.6 * 300."""
    view = View(0, l0_tokens=100, l1_tokens=200, l2_tokens=300)

    assert LmetricB().select(asked_tokens(), [view]).prefill_tokens == 560


def test_a_prompt_cached_to_its_end_still_costs_a_token() -> None:
    """So that of two replicas that have all of it the idle one wins."""
    views = [View(0, l0_tokens=1000, inflight=1), View(1, l0_tokens=1000)]
    view, tokens = LmetricB().select(asked_tokens(), views)

    assert (view.number, tokens) == (1, 1)
