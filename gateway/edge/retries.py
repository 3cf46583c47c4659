"""What is tried again elsewhere, and how often: one table.

A generation that is tried again may run twice, on two engines; it is never tried again once a byte of an
answer's body went to the client. What counts against a server's breaker is ``Outcome.is_failure``'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.fleet.outcome import Outcome

MAX_RETRIES = 3  # of one request, whatever the reasons

# How often one request is tried again after ending so, before its first body byte.
RETRIES: Mapping[Outcome, int] = {
    Outcome.OK: 0,
    Outcome.CLIENT_ERROR: 0,  # it would be wrong elsewhere too
    Outcome.BUSY: 1,
    Outcome.UNAVAILABLE: 1,
    Outcome.SERVER_ERROR: 1,
    Outcome.UNREACHABLE: MAX_RETRIES,
    Outcome.BROKEN: MAX_RETRIES,
    Outcome.TIMEOUT: 0,  # the client has waited long enough to be told
    Outcome.CLIENT_GONE: 0,
}


def outcome_of(status: int) -> Outcome:
    """What an answer's status says."""
    if status < 400:
        return Outcome.OK
    if status == 429:
        return Outcome.BUSY
    if status < 500:
        return Outcome.CLIENT_ERROR
    return Outcome.UNAVAILABLE if status == 503 else Outcome.SERVER_ERROR


class RetryBudget:
    """What one request may still try."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent: list[Outcome] = []

    def allows(self, outcome: Outcome) -> bool:
        """Whether an attempt that ends so may be followed by another."""
        return len(self._spent) < MAX_RETRIES and self._spent.count(outcome) < RETRIES[outcome]

    def spend(self, outcome: Outcome) -> None:
        self._spent.append(outcome)
