"""The cost model gives the values of its formulas."""

from __future__ import annotations

import pytest

from router_strategies._cost import Rates, Work, memory_guard_seconds, prefill_seconds, promised_seconds

RATES = Rates(prefill_tokens_s=10_000, doubling_tokens=20_000, step_s=0.01, l1_tokens_s=100_000, l2_tokens_s=50_000)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (Work(0, 0), 0.01),
        (Work(10_000, 0), 1.0 * 1.25 + 0.01),
        (Work(10_000, 5_000), 1.0 * 1.5 + 0.01),
        (Work(0, 10_000, from_l1=10_000), 0.01 + 0.1),
        (Work(0, 10_000, from_l2=10_000), 0.01 + 0.1 + 0.2),
    ],
)
def test_prefill_grows_with_context_and_loading(work: Work, seconds: float) -> None:
    """Uncached tokens cost more behind a longer context; lower tiers cost their loading."""
    assert prefill_seconds(work, RATES) == pytest.approx(seconds)


def test_whoever_decodes_there_takes_part_of_each_step() -> None:
    """Each sequence as much, at the replica's speed."""
    rates = Rates(decoding_s=0.001, calibration=2.0)
    alone_s = prefill_seconds(Work(1_000, 0), rates, 0.5)

    assert prefill_seconds(Work(1_000, 0), rates, 0.5, 10) == pytest.approx(alone_s + 10 * 0.001 * 2.0 / 0.5)


def test_speed_divides_and_calibration_multiplies() -> None:
    """A replica twice as fast takes half; a fleet twice as slow as believed takes double."""
    slow = Rates(calibration=2.0)

    assert prefill_seconds(Work(5_000, 0), Rates(), 2.0) == pytest.approx(prefill_seconds(Work(5_000, 0), Rates()) / 2)
    assert prefill_seconds(Work(5_000, 0), slow) == pytest.approx(prefill_seconds(Work(5_000, 0), Rates()) * 2)


@pytest.mark.parametrize(
    ("pending_s", "oldest_s", "age_s", "left_s"),
    [(3.0, 1.0, 0.0, 3.0), (3.0, 1.0, 0.5, 2.5), (3.0, 1.0, 9.0, 2.05), (0.0, 0.0, 5.0, 0.0)],
)
def test_promised_work_is_worked_off_by_the_oldest_only(
    pending_s: float, oldest_s: float, age_s: float, left_s: float
) -> None:
    """Time passes for the oldest promise, and never for more than 95 % of it."""
    assert promised_seconds(pending_s, oldest_s, age_s) == pytest.approx(left_s)


def test_the_memory_guard_rises_steeply_and_is_silent_without_a_capacity() -> None:
    """Nothing at an unknown capacity, little at half, much when the request does not fit."""
    half = memory_guard_seconds(500, 10, 1000, 5.0)
    nearly = memory_guard_seconds(900, 10, 1000, 5.0)
    over = memory_guard_seconds(995, 10, 1000, 5.0)

    assert memory_guard_seconds(500, 10, 0, 5.0) == 0.0
    assert half == pytest.approx(5 * 0.01 * 0.5**4 / 0.5)
    assert nearly == pytest.approx(5 * 0.01 * 0.9**4 / 0.1)
    assert over == pytest.approx(2 * 5 * 5 / 1000 + 5 * 0.01 * 0.98**4 / 0.02)
