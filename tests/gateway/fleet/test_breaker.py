"""The breaker opens on failures in a row and always finds its way back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_to_be_considered_takes_no_slot() -> None:
    """Asked for every request and not chosen: free still."""
    breaker = _open_at(0)

    assert all(breaker.allows(10.0 + number) for number in range(50))


@pytest.mark.parametrize(
    "ending",
    [lambda breaker: breaker.undecided(10), Breaker.succeeded, lambda breaker: None],
    ids=["the client left, 4xx, 429", "success", "it never ends"],
)
def test_the_probe_slot_frees_itself(ending: Callable[[Breaker], None]) -> None:
    """Cancelled, successful or never ended: a recovered server is tried again."""
    breaker = _open_at(0)
    breaker.sent(10)
    ending(breaker)

    assert breaker.allows(20)


def test_an_end_that_says_nothing_frees_the_slot_at_once_and_closes_nothing() -> None:
    """The next request is the probe."""
    breaker = _open_at(0)
    breaker.sent(10)
    breaker.undecided(10)

    assert breaker.allows(10.1)
    assert breaker.state(10.1) == "half_open"


def test_the_end_of_an_older_request_leaves_the_probe_its_slot() -> None:
    """Sent before the breaker opened, left while it is probed: there is one probe still."""
    breaker = _open_at(0)
    breaker.sent(10)
    breaker.undecided(-5)

    assert not breaker.allows(11)


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


def test_can_be_opened_at_once() -> None:
    """Whatever went before; and what was under way then does not keep it open for longer."""
    breaker = Breaker(threshold=5, open_s=10)
    breaker.succeeded()
    breaker.trip(100.0)
    breaker.failed(109.0, sent_s=99.0)

    assert breaker.state(109.9) == "open"
    assert breaker.state(110.0) == "half_open"


_STEPS = st.sampled_from(["sent", "failed", "trip", "undecided", "pause"])


@given(st.lists(st.tuples(_STEPS, st.floats(0, 15)), max_size=80))
def test_however_it_went_it_can_be_tried_within_the_open_time(steps: list[tuple[str, float]]) -> None:
    """No sequence of ends, or of ends that never come, loses the slot; one success then closes it."""
    breaker, now = Breaker(threshold=2, open_s=10), 0.0
    for step, pause_s in steps:
        now += pause_s
        if step == "sent":
            breaker.sent(now)
        elif step == "undecided":
            breaker.undecided(now - pause_s)
        elif step == "failed":
            breaker.failed(now, now - pause_s)
        elif step == "trip":
            breaker.trip(now)

    assert breaker.allows(now + 10.001)
    breaker.sent(now + 10.001)
    breaker.succeeded()
    assert breaker.state(now) == "closed"
