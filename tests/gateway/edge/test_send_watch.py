"""Whether a client reads, seen from what waits for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.send_watch import SendWatch


def quiet_after(*ticks: tuple[int, int]) -> int:
    watch = SendWatch()
    for unsent_bytes, written_bytes in ticks:
        watch.tick(unsent_bytes, written_bytes)
    return watch.quiet_ticks


@pytest.mark.parametrize(
    ("ticks", "quiet"),
    [
        pytest.param([(0, 0)] * 5, 0, id="nothing to take"),
        pytest.param([(100, 0)] * 5, 5, id="the rest of an answer that is over"),
        pytest.param([(100, 100), (200, 200), (300, 300)], 3, id="more is written, and none of it is taken"),
        pytest.param([(100, 100), (250, 300), (400, 500)], 0, id="it reads, if more slowly than is written"),
        pytest.param([(900, 1000), (900, 1000), (899, 1000)], 0, id="it reads again"),
        pytest.param([(900, 1000), (0, 1000), (900, 1900)], 1, id="it had caught up"),
        pytest.param([(900, 1000), (900, 0), (900, 0)], 2, id="the answer has ended, and its bytes wait"),
    ],
)
def test_when_a_client_takes_nothing(ticks: list[tuple[int, int]], quiet: int) -> None:
    """Pairs of what waits and what was written."""
    assert quiet_after(*ticks) == quiet


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1))
def test_one_who_takes_a_byte_between_any_two_ticks_is_never_quiet(steps: list[tuple[int, int]]) -> None:
    """However much more is written: pairs of what is written and what is taken, where there is anything to take."""
    watch, unsent, written = SendWatch(), 0, 0
    for more, taken in steps:
        written += more
        unsent += more
        unsent -= min(max(taken, 1), unsent)
        watch.tick(unsent, written)
        assert watch.quiet_ticks == 0
