"""Simulated time goes forward, and equal moments keep their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.agenda import Agenda


@given(st.lists(st.integers(0, 5)))
def test_what_is_due_is_done_in_order_of_time_and_then_of_asking(moments: list[int]) -> None:
    agenda, done = Agenda(), list[tuple[float, int]]()
    for number, moment in enumerate(moments):
        agenda.at(moment, lambda number=number: done.append((agenda.now, number)))  # type: ignore[misc]
    agenda.run()
    assert done == sorted((float(moment), number) for number, moment in enumerate(moments))


def test_what_is_asked_for_too_late_is_done_at_once() -> None:
    agenda, done = Agenda(), list[float]()
    agenda.at(3.0, lambda: agenda.at(1.0, lambda: done.append(agenda.clock())))
    agenda.run()
    assert done == [3.0]
