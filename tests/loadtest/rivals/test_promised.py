"""Seconds of prefill that were promised and are not done."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals._promised import PromisedWork


def test_the_oldest_gets_done_as_time_passes() -> None:
    """But no more than it: the next one has not begun while the oldest has no first token."""
    work = PromisedWork()
    work.add(View(0, pending=0), 2.0, 10.0)
    work.add(View(0, pending=1), 3.0, 11.0)

    assert [work.seconds(View(0, pending=2), now) for now in (11.0, 12.0, 20.0)] == [4.0, 3.0, 3.0]


def test_first_tokens_end_the_oldest_ones() -> None:
    """The next one begins when that is noticed."""
    work = PromisedWork()
    for pending in range(3):
        work.add(View(0, pending=pending), 2.0, 0.0)

    assert work.seconds(View(0, pending=1), 3.0) == 2.0
    assert work.seconds(View(0, pending=1), 3.5) == 1.5
    assert work.seconds(View(0, pending=0), 4.0) == 0.0


def test_a_new_request_begins_at_once_where_the_last_is_done() -> None:
    """Also where nobody asked for the seconds in between."""
    work = PromisedWork()
    work.add(View(0), 5.0, 0.0)
    work.add(View(0, pending=0), 1.0, 9.0)

    assert work.seconds(View(0, pending=1), 9.25) == pytest.approx(0.75)


def test_replicas_are_apart_and_can_be_forgotten() -> None:
    """What one promised does not count for another."""
    work = PromisedWork()
    work.add(View(0), 5.0, 0.0)
    work.add(View(1), 1.0, 0.0)
    work.forget(0)

    assert [work.seconds(View(number, pending=1), 0.0) for number in (0, 1, 2)] == [0.0, 1.0, 0.0]
