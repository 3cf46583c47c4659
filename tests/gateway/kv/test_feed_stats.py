"""What a feed's counts say of it."""

from __future__ import annotations

import pytest

from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import NO_DOUBT, Doubt, FeedState


@pytest.mark.parametrize(("since", "complete"), [(None, False), (0, True), (1, False), (4000, False)])
def test_complete_is_everything_since_the_engines_first_batch(since: int | None, complete: bool) -> None:
    """Nothing applied is not complete, nor is what began later."""
    assert FeedStats(since=since).complete is complete


def test_a_feed_that_was_never_heard_is_blind() -> None:
    """It has sizes for no tier, and shares nothing with another one."""
    one, two = FeedStats(), FeedStats()
    one.dropped["x"] += 1

    assert (two.state, two.block_sizes, two.l0_block_size, dict(two.dropped)) == (FeedState.BLIND, {}, 0, {})


def test_trust_follows_once_it_is_judged() -> None:
    """From state, delay and what requests showed."""
    stats = FeedStats(state=FeedState.FRESH)
    seen = [(stats.trust, stats.trust_reason, stats.is_current)]
    stats.doubted(Doubt(0.25, "over_predicted"))
    seen.append((stats.trust, stats.trust_reason, stats.is_current))
    stats.late_s = 5.0
    stats.doubted(NO_DOUBT)
    seen.append((stats.trust, stats.trust_reason, stats.is_current))
    stats.state = FeedState.BLIND
    stats.judge()

    assert seen == [(1.0, "fresh", True), (0.25, "suspect: over_predicted", True), (0.5, "suspect: late", False)]
    assert (stats.trust, stats.trust_reason, stats.is_current) == (0.0, "blind", False)
