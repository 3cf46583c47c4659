"""Intervals, against values computed by hand and from printed tables."""

from __future__ import annotations

import math

import pytest

from loadtest.replay.confidence import of_cells, of_pairs, t_quantile, t_within


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (29, 2.045)]
)
def test_student_s_t_as_tables_print_it(freedom: int, quantile: float) -> None:
    """Two-sided, 95 %."""
    assert t_quantile(freedom) == pytest.approx(quantile, abs=0.0006)


def test_one_degree_of_freedom_is_cauchy_s() -> None:
    """Half of it lies between -1 and 1."""
    assert t_within(1.0, 1) == pytest.approx(0.5)


def test_pairs_have_a_t_interval_of_their_logarithms() -> None:
    """1, 2 and 4: mean log 2, deviation log 2, half width 4.3027 * log 2 / sqrt 3."""
    interval = of_pairs([1.0, 2.0, 4.0])
    half = 4.30265 * math.log(2) / math.sqrt(3)

    assert interval.value == pytest.approx(2.0)
    assert interval.low == pytest.approx(2 * math.exp(-half), rel=1e-4)
    assert interval.high == pytest.approx(2 * math.exp(half), rel=1e-4)
    assert interval.measured == 3


def test_twice_as_fast_and_twice_as_slow_cancel_out() -> None:
    """Whichever of two is the baseline, the one is as far ahead as the other is behind."""
    there, back = of_pairs([2.0, 3.0, 2.5]), of_pairs([1 / 2.0, 1 / 3.0, 1 / 2.5])

    assert there.value * back.value == pytest.approx(1.0)
    assert there.high is not None
    assert back.low is not None
    assert there.high * back.low == pytest.approx(1.0)


@pytest.mark.parametrize("ratios", [[1.5], [1.5, 1.5]])
def test_too_few_to_be_sure(ratios: list[float]) -> None:
    """One or two seeds have no interval, rather than one that means nothing."""
    for interval in (of_pairs(ratios), of_cells(ratios)):
        assert (round(interval.value, 9), interval.low, interval.high) == (1.5, None, None)


def test_cells_that_agree_leave_no_doubt_and_others_do() -> None:
    """A bootstrap draws cells: alike ones always give the same mean."""
    alike, unlike = of_cells([2.0] * 5), of_cells([1.0, 1.0, 2.0, 4.0, 4.0])

    assert str(alike) == "2.00 (2.00-2.00)"
    assert unlike.value == pytest.approx(2.0)
    assert unlike.low is not None
    assert unlike.high is not None
    assert 1.0 <= unlike.low < 1.5
    assert 2.7 < unlike.high <= 4.0


def test_the_order_of_cells_changes_nothing() -> None:
    """Nor does the day: the draws are seeded."""
    assert of_cells([1.0, 2.0, 3.0]) == of_cells([3.0, 1.0, 2.0])


def test_none_is_no_ratio() -> None:
    for interval in (of_pairs, of_cells):
        with pytest.raises(ValueError, match="there are no"):
            interval([])


def test_it_is_shown_with_its_ends() -> None:
    assert str(of_pairs([2.0, 2.0, 2.0])) == "2.00 (2.00-2.00)"
    assert str(of_pairs([2.0])) == "2.00"
