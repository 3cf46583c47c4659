"""Retries: what one request may still try, and RetryBudget: what all requests of this process may.

What is tried again is a column of :class:`gateway.fleet.outcome.Outcome`. A generation that is tried again may run
twice, on two engines.
"""

from __future__ import annotations

from gateway.fleet.outcome import Again, Outcome

MAX_RETRIES = 3  # of one request, whatever the reasons
_MOST_SAVED = 10.0  # retries: what a process that has just started, or was quiet, may do at once


class RetryBudget:
    """A bucket of retries: each request adds ``fraction`` of one, each retry on an answer takes one.

    So a fleet that answers only errors gets at most ``1 + fraction`` times its load. It starts full.
    """

    __slots__ = ("_fraction", "_saved", "refused")

    def __init__(self, fraction: float = 0.1) -> None:
        self._fraction = fraction
        self._saved = _MOST_SAVED if fraction else 0.0
        self.refused = 0  # retries that were not made for want of budget

    def __repr__(self) -> str:
        return f"<RetryBudget {self._saved:.1f} saved, {self.refused} refused>"

    @property
    def allows(self) -> bool:
        return self._saved >= 1.0

    def earn(self) -> None:
        """There is one request more."""
        self._saved = min(_MOST_SAVED, self._saved + self._fraction)

    def spend(self) -> None:
        self._saved -= 1.0


class Retries:
    """What one request may still try. Made once a request: it earns the budget its part."""

    __slots__ = ("_answered", "_budget", "_made")

    def __init__(self, budget: RetryBudget) -> None:
        self._budget = budget
        self._made = 0
        self._answered = False  # whether one was made because of an answer
        budget.earn()

    def allows(self, outcome: Outcome) -> bool:
        """Whether an attempt that ends so may be followed by another. A ``False`` is counted if the budget says it."""
        again = outcome.again
        if again is Again.NO or again is Again.RESENT or self._made == MAX_RETRIES:
            return False
        if again is Again.EACH:
            return True
        if self._answered:
            return False
        if not self._budget.allows:
            self._budget.refused += 1
            return False
        return True

    def spend(self, outcome: Outcome) -> None:
        """Another attempt is made after one that ended so. Only after :meth:`allows`."""
        self._made += 1
        if outcome.again is Again.ONCE:
            self._answered = True
            self._budget.spend()
