"""What was predicted, and whether it is fit to be put to the test."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import TierTokens
from gateway.kv.trust import FeedState
from gateway.router.claim import Claim
from gateway.usage import Usage
from tests.gateway.examples import a_decision, a_pool

FRESH = FeedStats(state=FeedState.FRESH, l0_block_size=16)


class Court:
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[Claim, Usage | None]] = []

    def ended(self, claim: Claim, usage: Usage | None) -> None:
        self.heard.append((claim, usage))


def a_claim(stats: FeedStats | None = FRESH, **changes: object) -> Claim:
    (replica,) = a_pool("a=http://a:1").replicas
    return Claim(Court(), replica, a_decision(**changes), stats, "plain", 7, 656)


@pytest.mark.parametrize(
    ("stats", "changes", "reason"),
    [
        (FRESH, {}, ""),
        (FRESH, {"incomparable": "no_usage"}, ""),
        (FRESH, {"incomparable": "several_prompts"}, "several_prompts"),
        (FRESH, {"prompt_tokens": 0, "prompt_reason": "image"}, "unknown_prompt"),
        (None, {}, "no_events"),
        (FeedStats(state=FeedState.SUSPECT), {}, "unsettled"),
        (FRESH, {"index_reason": "index_unavailable"}, "unsettled"),
        (FRESH, {"expected_tokens": 1024}, "in_flight"),
        (FRESH, {"confirmed": TierTokens(640, 1024), "expected_tokens": 1024}, ""),
    ],
)
def test_fit_only_if_it_was_certain(stats: FeedStats | None, changes: dict[str, object], reason: str) -> None:
    """Events fresh, nothing on its way, and the engine counts what we count."""
    assert a_claim(stats, **changes).unfit == reason


def test_the_end_is_passed_on() -> None:
    """With the claim itself."""
    claim, usage = a_claim(), Usage(1, 1, 1)
    claim.ended(usage)

    assert isinstance(claim.judge, Court)
    assert claim.judge.heard == [(claim, usage)]
    assert claim.predicted_tokens == 640


def test_what_was_evicted_for_others_before_the_first_byte() -> None:
    """Not what the request itself took the place of, and not what went later."""
    stats = FeedStats(state=FeedState.FRESH, l0_block_size=16)
    claim = a_claim(stats, prompt_tokens=160)
    stats.removed += 15
    claim.first_byte()
    stats.removed += 100
    claim.first_byte()

    assert claim.evicted_tokens(64) == (15 - 7) * 16
    assert a_claim(stats, prompt_tokens=160).evicted_tokens(64) == 0
    assert a_claim(None).evicted_tokens(0) == 0


def test_where_another_process_hears_of_evictions_all_may_have_been() -> None:
    """Of its feed's state alone this one is told."""
    stats = FeedStats(state=FeedState.FRESH, counts_removed=False)

    assert a_claim(stats).evicted_tokens(0) == 640


@pytest.mark.parametrize(
    ("since", "usage", "expected"),
    [
        (0, Usage(1925, 1, 640), True),
        (0, Usage(1925, 1, 656), False),
        (9, Usage(1925, 1, 640), True),
        (0, None, True),
        (9, None, False),
        (0, Usage(1925, 1, None), True),
    ],
)
def test_events_must_tell_of_what_was_computed(since: int, usage: Usage | None, expected: bool) -> None:
    """Not of what the engine had already, which may be where the beginning of its events is not known."""
    stats = FeedStats(state=FeedState.FRESH, since=since)

    assert a_claim(stats).leaves_news(usage) is expected
    assert not a_claim(FeedStats(since=0)).leaves_news(usage)
    assert not a_claim(None).leaves_news(usage)
    claim = a_claim(stats)
    stats.gaps += 1
    assert not claim.leaves_news(usage)
    assert not dataclasses.replace(a_claim(stats), new_block=0).leaves_news(usage)
