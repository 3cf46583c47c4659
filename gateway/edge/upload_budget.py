"""UploadBudget: how much of requests that are not whole, or wait behind others of their connection, a process keeps.

Counted is what has come, and not what was announced: who sends nothing takes nothing from others. A request that comes
in one read, as most do, is served at once and not counted at all.
"""

from __future__ import annotations

from gateway.errors import UploadsFull


class UploadBudget:
    """For all connections of a process. ``held_bytes``: of bodies, at this moment."""

    __slots__ = ("_max_bytes", "held_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def check(self, announced_bytes: int) -> None:
        """Raises ``UploadsFull`` if a body of that size would not find room now."""
        if self.held_bytes + announced_bytes > self._max_bytes:
            raise UploadsFull


class UploadShare:
    """What one connection holds of the budget."""

    __slots__ = ("_budget", "held_bytes")

    def __init__(self, budget: UploadBudget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def set(self, held_bytes: int) -> None:
        """It holds so much now. Raises ``UploadsFull`` if it has grown beyond what is left; it is counted all the same,
        until it is given back.
        """
        growth = held_bytes - self.held_bytes
        self.held_bytes = held_bytes
        self._budget.held_bytes += growth
        if growth > 0:
            self._budget.check(0)
