"""The contract's own arithmetic."""

from __future__ import annotations

from loadtest.rivals import View


def test_what_is_cached_is_the_sum_of_the_tiers() -> None:
    """They are disjoint."""
    assert View(0, l0_tokens=100, l1_tokens=20, l2_tokens=3).cached_tokens == 123
