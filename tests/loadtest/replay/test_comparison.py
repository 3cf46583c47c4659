"""Strategies compared, with runs made by hand."""

from __future__ import annotations

import pytest

from loadtest.replay.comparison import TTFT_MEAN, TTFT_P99, Comparison
from loadtest.replay.confidence import of_pairs
from tests.loadtest.replay.hand_made import CELL, OTHER, measured


def test_ratios_are_paired_by_seed() -> None:
    """Seeds are unlike, and so are the TTFTs; the ratio in each is 2, and nothing is left to doubt."""
    comparison = Comparison([*measured("a", 1.0, 10.0, 100.0), *measured("b", 2.0, 20.0, 200.0)], "a")

    ratio = comparison.ratio(CELL, "b", TTFT_MEAN)

    assert ratio == of_pairs([2.0, 2.0, 2.0])
    assert comparison.ratio(CELL, "a", TTFT_P99, to="b") == of_pairs([0.5, 0.5, 0.5])


def test_seeds_that_only_one_has_are_no_pairs() -> None:
    """A run that failed, for instance."""
    runs = [*measured("a", 5.0, 1.0, 1.0), *measured("b", 9.0, 2.0, 2.0)[1:]]

    ratio = Comparison(runs, "a").ratio(CELL, "b", TTFT_MEAN)

    assert ratio is not None
    assert (round(ratio.value, 9), ratio.measured, ratio.low) == (2.0, 2, None)


def test_over_cells_each_counts_once_and_only_where_both_are() -> None:
    """However many seeds it has: here 2 and 8, whose geometric mean is 4; the third has no baseline."""
    third = CELL._replace(replicas=64)
    runs = [
        *measured("a", 1.0),
        *measured("b", 2.0),
        *measured("a", 1.0, 1.0, 1.0, cell=OTHER),
        *measured("b", 8.0, 8.0, 8.0, cell=OTHER),
        *measured("b", 500.0, cell=third),
    ]
    comparison = Comparison(runs, "a")

    overall = comparison.overall("b", TTFT_MEAN)

    assert overall is not None
    assert (round(overall.value, 9), overall.measured) == (4.0, 2)
    assert comparison.ratio(third, "b", TTFT_MEAN) is None
    assert comparison.run_in("b") == [CELL, OTHER, third]


def test_one_cell_has_the_confidence_of_its_seeds() -> None:
    """There is nothing to draw from."""
    comparison = Comparison([*measured("a", 1.0, 1.0, 1.0), *measured("b", 1.0, 2.0, 4.0)], "a")
    overall, pairs = comparison.overall("b", TTFT_MEAN), of_pairs([1.0, 2.0, 4.0])

    assert overall is not None
    assert (overall.value, overall.low, overall.high) == (pairs.value, pairs.low, pairs.high)


def test_the_best_come_first() -> None:
    """In a cell by its own figures, over all by the ratios; who shares no cell with the baseline comes last."""
    runs = [*measured("a", 2.0), *measured("b", 1.0), *measured("a", 1.0, cell=OTHER), *measured("b", 9.0, cell=OTHER)]
    comparison = Comparison([*runs, *measured("c", 0.1, cell=CELL._replace(load=0.9))], "a")

    assert comparison.ranked(CELL) == ["b", "a"]
    assert comparison.ranked(OTHER) == ["a", "b"]
    assert comparison.strategies == ["a", "b", "c"]


def test_the_cell_where_one_is_farthest_behind() -> None:
    """Against the best of that cell, whoever it is."""
    runs = [
        *measured("a", 1.0),
        *measured("b", 2.0),
        *measured("a", 6.0, cell=OTHER),
        *measured("b", 2.0, cell=OTHER),
    ]
    comparison = Comparison(runs, "a")
    worst = comparison.worst("a")

    assert (worst.cell, worst.best, round(worst.ratio.value, 9)) == (OTHER, "b", 3.0)
    assert (comparison.near_best("a"), comparison.near_best("b")) == (1, 1)


@pytest.mark.parametrize(
    ("ttfts", "is_behind"),
    [
        ((1.2, 1.21, 1.22), True),  # surely
        ((1.05, 1.06, 1.07), False),  # surely not by 10 %
        ((0.7, 1.2, 1.9), False),  # 17 %, but who knows
        ((1.2,), True),  # one seed: said, and said to be unsure
    ],
)
def test_behind_is_said_where_it_is_sure(ttfts: tuple[float, ...], is_behind: bool) -> None:
    """More than 10 % with the whole interval."""
    comparison = Comparison([*measured("a", *ttfts), *measured("b", *[1.0] * len(ttfts))], "a")

    assert [found.best for found in comparison.behind("a", TTFT_MEAN)] == (["b"] if is_behind else [])


def test_two_that_share_no_seed_are_compared_by_what_is_typical_of_them() -> None:
    """And nothing says how sure that is."""
    runs = [*measured("a", 6.0), *measured("b", 1.0, 2.0)[1:]]
    (found,) = Comparison(runs, "a").behind("a", TTFT_MEAN)

    assert (found.best, round(found.ratio.value, 9), found.ratio.low) == ("b", 3.0, None)


def test_the_best_one_is_nowhere_behind() -> None:
    comparison = Comparison([*measured("a", 1.0, 1.0, 1.0), *measured("b", 2.0, 2.0, 2.0)], "a")

    assert comparison.behind("a", TTFT_MEAN) == comparison.behind("a", TTFT_P99) == []


def test_of_a_run_made_twice_the_later_one_counts() -> None:
    comparison = Comparison([*measured("a", 1.0), *measured("a", 3.0)], "a")

    assert (comparison.mean(CELL, "a", TTFT_MEAN), comparison.seeds(CELL, "a")) == (3.0, 1)
