"""The breaker opens on failures in a row and always finds its way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.fleet.breaker import Breaker


def _open_at(now: float) -> Breaker:
    breaker = Breaker(threshold=3, open_s=10)
    for _ in range(3):
        breaker.failed(now)
    return breaker


def test_opens_after_failures_in_a_row_only() -> None:
    """A success in between starts the count anew."""
    breaker = Breaker(threshold=3, open_s=10)
    for _ in range(5):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()

    assert breaker.state(0) == "closed"
    assert _open_at(0).state(0) == "open"


def test_lets_one_probe_through_after_a_while() -> None:
    """Half-open: one request, and no second until it ended."""
    breaker = _open_at(0)

    assert not breaker.allows(9.9)
    assert breaker.allows(10)
    breaker.sent(10)
    assert not breaker.allows(11)


@pytest.mark.parametrize("ending", [Breaker.undecided, Breaker.succeeded, lambda breaker: None])
def test_the_probe_slot_frees_itself(ending: Callable[[Breaker], None]) -> None:
    """Cancelled, successful or never ended: a recovered server is tried again."""
    breaker = _open_at(0)
    breaker.sent(10)
    ending(breaker)

    assert breaker.allows(20)


def test_a_failed_probe_opens_it_again() -> None:
    """The wait starts anew."""
    breaker = _open_at(0)
    breaker.sent(10)
    breaker.failed(11)

    assert breaker.state(20) == "open"
    assert breaker.state(21) == "half_open"


def test_what_breaks_together_is_one_failure() -> None:
    """Sixteen streams cut by one restart do not open it; failures of requests sent after each other do."""
    together, apart = Breaker(threshold=3, open_s=10), Breaker(threshold=3, open_s=10)
    for _ in range(16):
        together.failed(5.0, sent_s=1.0)
    for second in range(3):
        apart.failed(second + 0.5, sent_s=float(second))

    assert together.state(5.0) == "closed"
    assert apart.state(3.0) == "open"
