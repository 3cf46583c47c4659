"""Round robin, random, fewest requests, power of two."""

from __future__ import annotations

from collections import Counter

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet


def test_round_robin_goes_around() -> None:
    """Each in its turn, whatever its load; the seed says who begins."""
    rival, views = load("round_robin", {"seed": 1}), fleet(9, 0, 0)
    turns = [rival.select(asked(()), views).view.number for _ in range(6)]

    assert sorted(turns[:3]) == [0, 1, 2]
    assert turns[3:] == turns[:3]
    assert {load("round_robin", {"seed": seed}).select(asked(()), views).view.number for seed in range(9)} == {0, 1, 2}


def test_random_takes_any() -> None:
    """All are chosen about as often, whatever their load."""
    rival, views = load("random"), fleet(9, 0, 0)
    counts = Counter(rival.select(asked(()), views).view.number for _ in range(900))

    assert all(200 < counts[number] < 400 for number in range(3)), counts


def test_least_loaded_takes_the_fewest_requests() -> None:
    """However long the prompts that wait there."""
    views = fleet(3, 2, 3)
    views[1].pending_tokens = 1_000_000

    assert chosen(load("least_loaded"), asked(()), views, 20) == {1}


def test_power_of_two_never_takes_the_worst() -> None:
    """Of three the one with the most requests loses to any other; the best is in two of three pairs."""
    rival, views = load("power_of_two"), fleet(1, 5, 9)
    counts = Counter(rival.select(asked(()), views).view.number for _ in range(900))

    assert set(counts) == {0, 1}
    assert 520 < counts[0] < 680


def test_power_of_two_takes_what_there_is() -> None:
    """Two, or one, are compared as they are."""
    assert chosen(load("power_of_two"), asked(()), fleet(4, 3), 20) == {1}
    assert chosen(load("power_of_two"), asked(()), fleet(4), 20) == {0}
