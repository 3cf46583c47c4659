"""Each replica in its turn, per model.

A replica's share is proportional to its configured speed. Knows nothing of prefixes or load: the baseline that every
other strategy is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from router_strategies._types import Candidate, Choice, Cost, RouteRequest, Strategy


@dataclass(slots=True)
class RoundRobin(Strategy):
    """Smooth weighted rotation: everyone earns its speed, the richest is chosen and pays what all earned."""

    reads_prompt: ClassVar[bool] = False
    reads_load: ClassVar[bool] = False

    _credit: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        if len(candidates) == 1:
            return Choice(candidates[0], "only_candidate")
        before = self._credit.get(request.model, {})
        credit: dict[str, float] = {}
        chosen, most, paid = candidates[0], float("-inf"), 0.0
        for candidate in candidates:
            earned = credit[candidate.id] = before.get(candidate.id, 0.0) + candidate.speed
            paid += candidate.speed
            if earned > most:
                chosen, most = candidate, earned
        credit[chosen.id] -= paid
        # One that failed for this very request keeps its turn; others that are gone are forgotten.
        credit.update((id_, before[id_]) for id_ in request.tried if id_ in before)
        self._credit[request.model] = credit
        return Choice(chosen, "rotation")

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> list[Cost]:
        """The richest goes first, so what it has earned counts as negative; of equals the first of the fleet."""
        before = self._credit.get(request.model, {})
        earned = [before.get(candidate.id, 0.0) + candidate.speed for candidate in candidates]
        return [Cost((-turns,), {"turns_earned": turns}) for turns in earned]


STRATEGY: type[Strategy] = RoundRobin
