"""How much a process knows of a replica, as a number that others compare."""

from __future__ import annotations

from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import FeedState
from gateway.shared.index.knowledge import COMPLETE, NOTHING, UNSURE, history, knowledge


def of(state: FeedState, since: int | None) -> int:
    return knowledge(FeedStats(state=state, since=since))


def test_the_longer_history_is_worth_more() -> None:
    """From nothing over what is not sure yet to everything since the engine began."""
    rising = [
        knowledge(None),
        of(FeedState.SUSPECT, 0),
        of(FeedState.FRESH, 10_000_000),
        of(FeedState.FRESH, 1),
        of(FeedState.FRESH, 0),
    ]

    assert rising == sorted(set(rising))
    assert (rising[0], rising[1], rising[-1]) == (NOTHING, UNSURE, COMPLETE)


def test_who_sees_nothing_now_knows_nothing() -> None:
    """However much was applied before."""
    assert of(FeedState.BLIND, 0) == NOTHING


def test_a_history_that_has_not_begun_is_worth_little() -> None:
    """More than nothing: its connection is there. And no number is so large that it becomes less."""
    assert of(FeedState.FRESH, None) == history(None) == UNSURE
    assert history(1 << 60) == UNSURE
