"""Feeds that take one new process after another for what no engine does."""

from __future__ import annotations

from gateway.check.restless import Restless
from gateway.kv.feed_stats import FeedStats


def _seen(times_s: list[float], restarts: list[int]) -> list[list[str]]:
    restless = Restless()
    return [
        [symptom.name for symptom in restless.of("a", FeedStats(restarts=count), now)]
        for now, count in zip(times_s, restarts)
    ]


def test_many_in_a_short_time_are_a_symptom() -> None:
    """Until it has been calm for a while."""
    assert _seen([0, 1, 2, 3, 13], [0, 2, 4, 9, 9]) == [[], [], ["replay_stale"], ["replay_stale"], []]


def test_an_engine_that_crashes_again_and_again_is_none() -> None:
    """It takes its time to start."""
    assert not any(_seen([5.0 * number for number in range(20)], list(range(20))))


def test_those_that_left_are_forgotten() -> None:
    """One of the same name begins anew."""
    restless = Restless()
    list(restless.of("a", FeedStats(restarts=0), 0.0))
    restless.forget_all_but(["b"])

    assert list(restless.of("a", FeedStats(restarts=9), 1.0)) == []
