from __future__ import annotations

import pytest

from gateway.edge.retries import MAX_RETRIES, RETRIES, RetryBudget, outcome_of
from gateway.fleet.outcome import Outcome


def test_the_table_has_every_outcome() -> None:
    """No way of ending is forgotten."""
    assert set(RETRIES) == set(Outcome)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK),
        (204, Outcome.OK),
        (302, Outcome.OK),
        (400, Outcome.CLIENT_ERROR),
        (404, Outcome.CLIENT_ERROR),
        (422, Outcome.CLIENT_ERROR),
        (429, Outcome.BUSY),
        (500, Outcome.SERVER_ERROR),
        (502, Outcome.SERVER_ERROR),
        (503, Outcome.UNAVAILABLE),
        (599, Outcome.SERVER_ERROR),
    ],
)
def test_statuses_are_told_apart(status: int, outcome: Outcome) -> None:
    """The client's faults, pushback and the server's faults are different signals."""
    assert outcome_of(status) is outcome


@pytest.mark.parametrize("outcome", Outcome)
def test_the_budget_gives_what_the_table_says(outcome: Outcome) -> None:
    """One kind of ending alone gets exactly its number of retries."""
    budget = RetryBudget()
    given = 0
    while budget.allows(outcome):
        budget.spend(outcome)
        given += 1
    assert given == RETRIES[outcome]


def test_mixed_endings_share_one_bound() -> None:
    """Refusals and bad answers together do not exceed the total."""
    budget = RetryBudget()
    for outcome in (Outcome.UNREACHABLE, Outcome.UNAVAILABLE, Outcome.BROKEN):
        assert budget.allows(outcome)
        budget.spend(outcome)
    assert not any(budget.allows(outcome) for outcome in Outcome)
    assert MAX_RETRIES == 3
