"""How much of unfinished requests is kept: the sum over all connections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.upload_budget import UploadBudget, UploadShare
from gateway.errors import UploadsFull


def test_who_grows_beyond_the_budget_is_told() -> None:
    """Its last byte is the last that is allowed; and one that gives back makes room for others."""
    budget = UploadBudget(1000)
    one, other = UploadShare(budget), UploadShare(budget)
    one.set(600)
    other.set(400)
    with pytest.raises(UploadsFull):
        other.set(401)
    other.set(0)
    one.set(1000)
    assert budget.held_bytes == 1000


def test_what_is_announced_must_find_room() -> None:
    """So that nobody sends what will be refused."""
    budget = UploadBudget(1000)
    UploadShare(budget).set(400)
    budget.check(600)
    with pytest.raises(UploadsFull):
        budget.check(601)


def test_who_gives_back_is_never_refused() -> None:
    """Though there is still too much."""
    budget = UploadBudget(1000)
    share = UploadShare(budget)
    with pytest.raises(UploadsFull):
        share.set(3000)
    share.set(2000)
    assert budget.held_bytes == 2000


def test_the_error_says_when_to_come_back() -> None:
    """Soon."""
    error = UploadsFull()
    assert (error.status, error.code, error.headers()) == (503, "uploads_full", [(b"retry-after", b"1")])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000)), max_size=50))
def test_the_sum_is_that_of_the_shares(steps: list[tuple[int, int]]) -> None:
    """Whatever was refused on the way; and nothing is left when all have given back."""
    budget = UploadBudget(1000)
    shares = [UploadShare(budget) for _ in range(4)]
    for number, held_bytes in steps:
        grows, free = held_bytes > shares[number].held_bytes, 1000 - budget.held_bytes
        refused = grows and held_bytes - shares[number].held_bytes > free
        if refused:
            with pytest.raises(UploadsFull):
                shares[number].set(held_bytes)
        else:
            shares[number].set(held_bytes)
        assert budget.held_bytes == sum(share.held_bytes for share in shares)
    for share in shares:
        share.set(0)
    assert budget.held_bytes == 0
