"""Ray Serve LLM's prefix router."""

from __future__ import annotations

import pytest

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach

NAME = "ray_prefix_aware"


@pytest.mark.parametrize(("tokens", "chosen_number"), [(1000, 0), (1001, 1)])
def test_a_match_must_be_a_tenth(tokens: int, chosen_number: int) -> None:
    """100 of 1,000 tokens are enough; else the smallest tree, however busy."""
    rival = load(NAME)
    teach(rival, 0, (1,))

    assert chosen(rival, asked((1, 2), tokens=tokens), fleet(0, 9)) == {chosen_number}


@pytest.mark.parametrize(("in_flight", "may_leave"), [(10, False), (11, True)])
def test_affinity_ends_where_queues_differ_by_more_than_ten(in_flight: int, may_leave: bool) -> None:
    """Then any two are compared by their queues: the busiest of three is never taken."""
    rival = load(NAME)
    teach(rival, 0, (1,))

    assert (chosen(rival, asked((1,)), fleet(in_flight, 0, 1)) != {0}) is may_leave


def test_the_shortest_queue_of_the_holders() -> None:
    """Of several with the longest match."""
    rival = load(NAME)
    for number in (0, 1):
        teach(rival, number, (1,))

    assert chosen(rival, asked((1,)), fleet(3, 2, 0), 20) == {1}


def test_the_shortest_queue_of_the_smallest_trees() -> None:
    """Of several that were sent as little."""
    rival = load(NAME)
    teach(rival, 0, (1,))

    assert chosen(rival, asked((9,)), fleet(0, 2, 1)) == {2}


def test_two_replicas_that_differ_are_both_compared() -> None:
    """The shorter queue."""
    rival = load(NAME)
    teach(rival, 0, (1,))

    assert chosen(rival, asked((1,)), fleet(20, 0), 20) == {1}
