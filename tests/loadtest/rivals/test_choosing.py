"""What the rivals' formulas share."""

from __future__ import annotations

from random import Random

from loadtest.rivals._choosing import fewest_requests, least, pick
from tests.loadtest.rivals.hand_made import asked, fleet


def test_the_least_wins() -> None:
    """One has the least: it is chosen."""
    views = fleet(3, 1, 2)

    assert fewest_requests(views, Random(0)) is views[1]
    assert least(views, lambda view: -view.inflight, Random(0)) is views[0]


def test_ties_are_broken_at_random() -> None:
    """All of those with the least are chosen at some time, and no other."""
    views, random = fleet(1, 1, 2, 1), Random(0)

    assert {fewest_requests(views, random).number for _ in range(100)} == {0, 1, 3}


def test_a_match_leaves_the_rest_of_the_prompt() -> None:
    """What matched need not be computed; never less than nothing is left."""
    view = fleet(0)[0]

    assert pick(asked((1, 2, 3), tokens=350), view, 2) == (view, 150)
    assert pick(asked((1, 2, 3), tokens=350), view) == (view, 350)
    assert pick(asked((1, 2, 3), tokens=250), view, 3) == (view, 0)
