"""How late batches come, whatever the clocks say."""

from __future__ import annotations

import pytest

from gateway.kv.lateness import WINDOW_S, Lateness


@pytest.mark.parametrize("skew", [-3600.0, -0.5, 0.0, 7.25])
def test_the_difference_of_the_clocks_is_no_delay(skew: float) -> None:
    """What the publisher's clock is behind or ahead cancels out; a delay stays one."""
    lateness = Lateness()
    for second in range(10):
        assert lateness.note(second - skew, second + 0.25) == pytest.approx(0.0)

    assert lateness.note(10 - skew, 13.25) == pytest.approx(3.0)
    assert lateness.note(14 - skew, 14.25) == pytest.approx(0.0)


def test_a_late_beginning_is_found_out_by_what_comes_faster() -> None:
    """Until then nobody can tell."""
    lateness = Lateness()

    assert lateness.note(0.0, 5.0) == 0.0
    assert lateness.note(6.0, 7.0) == 0.0
    assert lateness.note(8.0, 13.0) == 4.0


def test_a_clock_that_is_set_is_forgiven_after_two_windows() -> None:
    """Forward it looks like a delay, for a while; back it is noticed at once."""
    lateness = Lateness()
    lateness.note(0.0, 0.0)
    assert lateness.note(1.0, 6.0) == 5.0
    assert lateness.note(WINDOW_S, WINDOW_S + 5.0) == 5.0

    assert lateness.note(2 * WINDOW_S, 2 * WINDOW_S + 5.0) == 0.0
    assert lateness.note(2 * WINDOW_S + 1, 2 * WINDOW_S - 99) == 0.0


def test_a_silence_of_any_length_keeps_the_smallest_lag() -> None:
    """The last one that was seen is what there is to compare with."""
    lateness = Lateness()
    lateness.note(0.0, 1.0)

    assert lateness.note(9 * WINDOW_S, 9 * WINDOW_S + 3.0) == 2.0
