"""A guess at when there will be a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.freeing_pace import LEAST_S, MOST_S, FreeingPace


def test_nothing_is_known_at_first() -> None:
    """Then the least."""
    pace = FreeingPace()
    assert pace.wait_s(1000, 0, 5.0) == LEAST_S
    pace.look(0, 5.0)
    assert pace.wait_s(1000, 0, 5.0) == LEAST_S


@pytest.mark.parametrize(("places", "seconds"), [(1, 1), (10, 1), (25, 3), (101, 11), (100_000, MOST_S)])
def test_ten_a_second(places: int, seconds: int) -> None:
    """So many places at the pace of now, rounded up, within bounds."""
    pace = FreeingPace()
    for second in range(25):
        pace.look(second * 10, 100.0 + second)
    assert pace.wait_s(places, 250, 125.0) == seconds


def test_while_nothing_frees_the_guess_grows() -> None:
    """A place takes at least as long as nobody got one."""
    pace = FreeingPace()
    pace.look(7, 100.0)
    assert [pace.wait_s(1, 7, now) for now in (100.0, 103.0, 108.5, 300.0)] == [1, 3, 9, MOST_S]


def test_a_quiet_time_is_forgotten() -> None:
    """An hour in which all found a place does not make the next shortage look long."""
    pace = FreeingPace()
    pace.look(0, 100.0)
    pace.look(50, 3700.0)
    pace.look(50, 3702.0)
    assert pace.wait_s(1, 70, 3702.0) == 1
    assert pace.wait_s(100, 70, 3702.0) == 10


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100)), max_size=30), st.integers(1, 10_000))
def test_always_whole_seconds_within_bounds(steps: list[tuple[int, float]], places: int) -> None:
    """Whatever the past."""
    pace, freed, now = FreeingPace(), 0, 0.0
    for more, later_s in steps:
        freed, now = freed + more, now + later_s
        pace.look(freed, now)
        guess = pace.wait_s(places, freed, now)
        assert isinstance(guess, int)
        assert LEAST_S <= guess <= MOST_S
