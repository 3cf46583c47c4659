"""AIBrix's prefix-cache."""

from __future__ import annotations

import pytest

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach

NAME = "aibrix_prefix_cache"


@pytest.mark.parametrize(("load_of_holder", "chosen_number"), [(4, 0), (5, 1)])
def test_a_holder_may_have_the_mean_and_one_deviation(load_of_holder: int, chosen_number: int) -> None:
    """Of 4, 0, 4, 4: 3 + 1.73 bears 4. Of 5, 0, 4, 4: 3.25 + 1.92 = 5.17 bears 5, but 5, 0, 1, 1 with 3.66 does not."""
    rival = load(NAME)
    teach(rival, 0, (1,))
    others = (0, 4, 4) if chosen_number == 0 else (0, 1, 1)

    assert chosen(rival, asked((1,)), fleet(load_of_holder, *others)) == {chosen_number}


def test_the_best_match_that_is_not_too_busy() -> None:
    """The longest holder is far above the others; the next best is taken, not the least loaded."""
    rival = load(NAME)
    teach(rival, 0, (1, 2, 3))
    teach(rival, 1, (1, 2))

    assert chosen(rival, asked((1, 2, 3)), fleet(7, 2, 1, 1)) == {1}


def test_equal_matches_go_by_requests() -> None:
    """In whole percent: 200 and 201 of 300 blocks are 66 and 67, 201 and 202 both 67."""
    blocks = range(300)
    for lengths, expected in (((200, 201), 1), ((202, 201), 1), ((201, 200), 0)):
        rival = load(NAME)
        for number, length in enumerate(lengths):
            teach(rival, number, blocks[:length])
        assert chosen(rival, asked(blocks), fleet(3, 2, 3, 3)) == {expected}


@pytest.mark.parametrize(("busiest", "chosen_number"), [(7, 1), (8, 2)])
def test_matches_of_a_skewed_fleet_count_only_where_least_is_in_flight(busiest: int, chosen_number: int) -> None:
    """One at 8 among 1, 0 and 1 is above 2 * (2.5 + 1) and 8 above the fewest: the holder with 1 is passed over."""
    rival = load(NAME)
    teach(rival, 1, (1, 2))
    teach(rival, 2, (1,))

    assert chosen(rival, asked((1, 2)), fleet(busiest, 1, 0, 1)) == {chosen_number}


def test_a_fleet_is_not_skewed_below_twice_the_mean_and_one() -> None:
    """9, 1, 3 and 3: 8 apart, and above 2 * 4, but not above 2 * (4 + 1): a holder with 3 keeps its prompt."""
    rival = load(NAME)
    teach(rival, 1, (1,))
    teach(rival, 2, (1, 2))

    assert chosen(rival, asked((1, 2)), fleet(9, 1, 3, 3)) == {2}


def test_the_gate_without_a_factor_is_the_older_one() -> None:
    """8 requests between most and fewest are enough, however many all have."""
    views = fleet(28, 22, 20, 26)
    for factor, expected in ((2.0, 1), (0.0, 2)):
        rival = load(NAME, {"imbalance_factor": factor})
        teach(rival, 1, (1,))
        assert chosen(rival, asked((1,)), views) == {expected}


def test_without_a_match_the_fewest_requests() -> None:
    """Ties at random."""
    assert {load(NAME, {"seed": n}).select(asked((1,)), fleet(1, 0, 0)).view.number for n in range(20)} == {1, 2}


def test_what_is_old_is_forgotten() -> None:
    """After 20 minutes without use."""
    for now, expected in ((1200.0, 0), (1200.1, 1)):
        rival = load(NAME)
        teach(rival, 0, (1,), now=0.0)
        assert chosen(rival, asked((1,), now=now), fleet(1, 0, 1)) == {expected}


def test_the_table_is_bounded() -> None:
    """With room for one block the older prompt is forgotten."""
    rival = load(NAME, {"max_table_tokens": 100})
    teach(rival, 0, (1,))
    teach(rival, 0, (2,), now=1.0)

    assert chosen(rival, asked((1,)), fleet(1, 0, 1)) == {1}
