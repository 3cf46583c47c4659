"""What a feed's counts say of it."""

from __future__ import annotations

import pytest

from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import FeedState


@pytest.mark.parametrize(("since", "complete"), [(None, False), (0, True), (1, False), (4000, False)])
def test_complete_is_everything_since_the_engines_first_batch(since: int | None, complete: bool) -> None:
    """Nothing applied is not complete, nor is what began later."""
    assert FeedStats(since=since).complete is complete


def test_a_feed_that_was_never_heard_is_blind() -> None:
    """It has sizes for no tier, and shares nothing with another one."""
    one, two = FeedStats(), FeedStats()
    one.dropped["x"] += 1

    assert (two.state, two.block_sizes, two.l0_block_size, dict(two.dropped)) == (FeedState.BLIND, {}, 0, {})
