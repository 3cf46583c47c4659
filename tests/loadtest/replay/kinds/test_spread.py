"""Spread: draws that keep to their quantiles."""

from __future__ import annotations

from random import Random

import pytest

from loadtest.replay.kinds.spread import Spread


def test_draws_keep_to_the_quantiles() -> None:
    """A quarter below 10, a quarter above 100, none outside the ends."""
    rng = Random(1)
    spread = Spread({0: 2, 0.25: 10, 0.75: 100, 1: 5000})
    draws = [spread.draw(rng) for _ in range(10_000)]
    assert sum(draw < 10 for draw in draws) / 10_000 == pytest.approx(0.25, abs=0.02)
    assert sum(draw > 100 for draw in draws) / 10_000 == pytest.approx(0.25, abs=0.02)
    assert min(draws) >= 2
    assert max(draws) <= 5000


def test_whole_draws_are_at_least_one() -> None:
    """As token counts are."""
    rng = Random(1)
    assert {Spread({0: 0.01, 1: 0.4}).whole(rng) for _ in range(20)} == {1}
