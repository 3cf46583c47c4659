"""What a replica's report shows beyond what we know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.strangers import Strangers, reports_in


@pytest.mark.parametrize(
    ("waiting", "running", "known", "strangers"),
    [
        (0.0, 0.0, 0, None),
        (2.0, 3.0, 5, None),
        (0.0, 3.0, 5, None),  # the report is older than what we sent
        (0.0, 4.0, 1, (3, 0.0)),
        (6.0, 4.0, 0, (4, 6.0)),
        (6.0, 4.0, 5, (2, 3.0)),
        (None, 4.0, 0, None),
        (4.0, None, 0, None),
        (-5.0, 10.0, 0, None),
        (10.0, -5.0, 0, None),
        (0.0, 1e300, 0, None),
    ],
)
def test_a_report_counts_for_what_it_has_beyond_what_is_known(
    waiting: float | None, running: float | None, known: int, strangers: tuple[int, float] | None
) -> None:
    assert Strangers.of(waiting, running, known) == strangers


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**6))
def test_they_are_never_more_than_are_reported(waiting: float, running: float, known: int) -> None:
    strangers = Strangers.of(waiting, running, known)
    if strangers is not None:
        assert 0 <= strangers.decoding <= round(running)
        assert 0 <= strangers.waiting <= waiting * (1 + 1e-9)


@pytest.mark.parametrize(("interval_s", "reports"), [(0.05, 1), (0.5, 2), (2.0, 4), (30.0, 4)])
def test_nobody_is_asked_all_the_time(interval_s: float, reports: int) -> None:
    """Four times in an interval, and not within a quarter of a second."""
    assert reports_in(interval_s) == reports
