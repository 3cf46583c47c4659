"""RecentWork: a window of what replicas were given."""

from __future__ import annotations

import pytest

from loadtest.rivals._recent_work import RecentWork


def test_seconds_are_of_the_window() -> None:
    """What was given before it does not count; what was given at its very beginning does."""
    work = RecentWork(10.0)
    work.give(0, 2.0, (1,), 0.0)
    work.give(0, 3.0, (1,), 5.0)

    work.move_to(10.0)
    assert (work.seconds(0), work.seconds(1)) == (5.0, 0.0)
    work.move_to(10.5)
    assert work.seconds(0) == pytest.approx(3.0)
    work.move_to(100.0)
    assert work.seconds(0) == pytest.approx(0.0)


def test_hit_rates_are_of_all_requests() -> None:
    """Three requests, two with block 1 at replica 0, one of them with block 2."""
    work = RecentWork(10.0)
    work.give(0, 1.0, (1, 2), 0.0)
    work.give(0, 1.0, (1,), 1.0)
    work.give(1, 1.0, (1,), 2.0)

    assert work.hit_rate(0, (1,)) == pytest.approx(2 / 3)
    assert work.hit_rate(0, (1, 2, 9)) == pytest.approx(1.0)
    assert work.hit_rate(5, (1,)) == 0.0
    work.move_to(10.5)
    assert work.hit_rate(0, (1, 2)) == pytest.approx(1 / 2)
    work.move_to(100.0)
    assert work.hit_rate(0, (1,)) == 0.0


def test_a_replica_is_forgotten_with_its_work() -> None:
    """Nothing is left of it to be taken back later."""
    work = RecentWork(10.0)
    work.give(0, 2.0, (1,), 0.0)
    work.give(1, 2.0, (1,), 0.0)

    work.forget(0)
    work.move_to(50.0)

    assert (work.seconds(0), work.hit_rate(0, (1,))) == (0.0, 0.0)
