"""The order in which those who wait come to their turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.waiting_line import WaitingLine


def _drained(line: WaitingLine[int], priorities: Sequence[int]) -> list[int]:
    order = []
    while (item := line.first()) is not None:
        order.append(item)
        line.remove(item, priorities[item])
    return order


@given(st.lists(st.integers(-3, 3)), st.data())
def test_higher_first_then_as_they_came(priorities: list[int], data: st.DataObject) -> None:
    """Also where some have gone from the middle."""
    line: WaitingLine[int] = WaitingLine()
    for item, priority in enumerate(priorities):
        line.push(item, priority)
    gone = data.draw(st.sets(st.sampled_from(range(len(priorities))))) if priorities else set()
    for item in gone:
        line.remove(item, priorities[item])
    stay = [item for item in range(len(priorities)) if item not in gone]

    assert bool(line) is bool(stay)
    assert sorted(line.heads()) == sorted(
        min(item for item in stay if priorities[item] == priority) for priority in {priorities[item] for item in stay}
    )
    assert not stay or line.top == max(priorities[item] for item in stay)
    assert _drained(line, priorities) == sorted(stay, key=lambda item: (-priorities[item], item))
    assert not line


def test_who_does_not_wait_cannot_go() -> None:
    """A mistake of the caller is an error, not a wrong count."""
    line: WaitingLine[int] = WaitingLine()
    line.push(1, 0)
    with pytest.raises(KeyError):
        line.remove(2, 0)
    with pytest.raises(KeyError):
        line.remove(1, 5)
