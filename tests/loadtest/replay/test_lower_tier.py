"""Host memory and shared storage: what is used last stays."""

from __future__ import annotations

from loadtest.replay.lower_tier import LowerTier, usable


def test_the_least_recently_used_goes_first() -> None:
    tier = LowerTier(2)
    tier.keep([1, 2])
    tier.keep([1])
    tier.keep([3])
    assert (1 in tier, 2 in tier, 3 in tier) == (True, False, True)
    assert (tier.stored, tier.removed) == ([1, 2, 3], [2])


def test_without_capacity_nothing_is_kept() -> None:
    tier = LowerTier(0)
    tier.keep([1])
    assert 1 not in tier
    assert not tier.stored


def test_a_prefix_may_lie_in_several_tiers_and_ends_at_the_first_block_that_is_in_none() -> None:
    host, storage = LowerTier(9), LowerTier(9)
    host.keep([1, 3])
    storage.keep([2, 5])
    assert usable((host, storage), [1, 2, 3, 4, 5], 5) == 3
    assert usable((host,), [1, 2, 3], 3) == 1
    assert usable((host, storage), [1, 2, 3], 2) == 2
