"""production-stack's kvaware."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.production_stack_kvaware import ProductionStackKvAware
from tests.loadtest.rivals.hand_made import asked_tokens


@pytest.mark.parametrize(("cached", "chosen"), [(2999, 1), (3000, 0)])
def test_a_long_prompt_needs_a_long_match(cached: int, chosen: int) -> None:
    """At most 2,000 tokens may be left; else the least loaded gets it."""
    views = [View(0, l0_tokens=cached, inflight=100), View(1)]

    assert ProductionStackKvAware().select(asked_tokens(5000), views).view.number == chosen


def test_a_short_prompt_follows_any_match() -> None:
    """Whatever the load, and in any tier."""
    views = [View(0, l1_tokens=100, inflight=100), View(1)]

    assert ProductionStackKvAware().select(asked_tokens(2000), views).view.number == 0


def test_without_a_match_the_least_loaded_gets_it() -> None:
    """Also where the prompt is short."""
    views = [View(number, inflight=2) for number in range(9)]

    assert ProductionStackKvAware().select(asked_tokens(500), [*views, View(9, inflight=1)]).view.number == 9
