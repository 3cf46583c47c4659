"""What one request may still try, and what all requests together may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.retries import MAX_RETRIES, Retries, RetryBudget
from gateway.fleet.outcome import Again, Outcome

ALLOWED = {Again.NO: 0, Again.RESENT: 0, Again.ONCE: 1, Again.EACH: MAX_RETRIES}


def _given(retries: Retries, outcome: Outcome) -> int:
    """How many retries there are if every attempt ends so."""
    given = 0
    while retries.allows(outcome):
        retries.spend(outcome)
        given += 1
    return given


@pytest.mark.parametrize("outcome", Outcome)
def test_a_request_gets_what_the_table_says(outcome: Outcome) -> None:
    """One kind of ending alone gets exactly its number of retries."""
    assert _given(Retries(RetryBudget()), outcome) == ALLOWED[outcome.again]


def test_mixed_endings_share_one_bound() -> None:
    """Refusals and bad answers together do not exceed the total."""
    retries = Retries(RetryBudget())
    for outcome in (Outcome.UNREACHABLE, Outcome.UNAVAILABLE, Outcome.BROKEN):
        assert retries.allows(outcome)
        retries.spend(outcome)

    assert not any(retries.allows(outcome) for outcome in Outcome)
    assert MAX_RETRIES == 3


def test_answers_share_one_retry() -> None:
    """429 here and 503 there: that answer passes; a third server is asked only if the second was not there at all."""
    retries = Retries(RetryBudget())
    retries.spend(Outcome.BUSY)

    assert not retries.allows(Outcome.UNAVAILABLE)
    assert retries.allows(Outcome.UNREACHABLE)


def test_a_quiet_process_may_retry_at_once() -> None:
    """The budget begins full, and holds no more than that however many requests need no retry."""
    budget = RetryBudget(0.1)
    for _ in range(1000):
        Retries(budget)

    retried = [_given(Retries(budget), Outcome.BUSY) for _ in range(20)]

    assert retried[:10] == [1] * 10
    assert sum(retried[10:]) <= 2  # what those twenty earned


def test_a_fleet_that_answers_errors_is_not_asked_twice_as_much() -> None:
    """1000 requests that all end so: one in ten is tried again, after those saved; the rest is counted."""
    budget = RetryBudget(0.1)
    retried = sum(_given(Retries(budget), Outcome.SERVER_ERROR) for _ in range(1000))

    assert 100 <= retried <= 111
    assert retried + budget.refused == 1000


def test_connections_are_outside_the_budget() -> None:
    """Nothing was computed there: it costs nobody anything to go elsewhere."""
    budget = RetryBudget(0)

    assert _given(Retries(budget), Outcome.UNREACHABLE) == MAX_RETRIES
    assert budget.refused == 0


def test_no_budget_no_retry() -> None:
    """0 turns them off, also those that a quiet process would have saved."""
    budget = RetryBudget(0)

    assert _given(Retries(budget), Outcome.BUSY) == 0
    assert budget.refused == 1


@given(st.lists(st.sampled_from(list(Outcome)), max_size=200), st.floats(0, 1))
def test_the_budget_bounds_retries_whatever_happens(endings: list[Outcome], fraction: float) -> None:
    """Never more on answers than it began with and what requests earned."""
    budget = RetryBudget(fraction)
    given = [(outcome, _given(Retries(budget), outcome)) for outcome in endings]
    on_answers = sum(retries for outcome, retries in given if outcome.again is Again.ONCE)

    assert on_answers <= 10 + fraction * len(endings) + 1e-6
