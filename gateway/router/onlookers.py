"""Onlookers: who sees each first choice as it is made: shadows, and a recorder. They never change it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from gateway.router.prepared import Prepared
from gateway.router.recorder import Recorder
from gateway.router.shadow import Shadows
from router_strategies import Candidate, Choice, Cost, RouteRequest, Strategy

_log = logging.getLogger(__name__)


class Onlookers:
    """Either may be missing. ``unrecorded``: choices that could not be recorded."""

    def __init__(self, shadows: Shadows | None = None, recorder: Recorder | None = None) -> None:
        self._shadows = shadows
        self._recorder = recorder
        self.unrecorded = 0

    @property
    def reads_prompt(self) -> bool:
        """Whether they want to know prompts that the strategy does not read. A record without is of no use."""
        return self._recorder is not None or (self._shadows is not None and self._shadows.reads_prompt)

    def select(
        self, strategy: Strategy, prepared: Prepared, facts: RouteRequest, candidates: Sequence[Candidate]
    ) -> Choice:
        """The choice of ``strategy``, seen by all of them. ``candidates`` have all their fields."""
        recorder = self._recorder
        costs = () if recorder is None else self._costs(strategy, facts, candidates)
        choice = strategy.select(facts, candidates)
        shadows = self._shadows
        asked = {} if shadows is None else shadows.ask(prepared.strategy, facts, candidates, choice.candidate)
        if recorder is not None and costs is not None:
            prepared.record = recorder.record(prepared, candidates, costs, asked)
        return choice

    def _costs(self, strategy: Strategy, facts: RouteRequest, candidates: Sequence[Candidate]) -> Sequence[Cost] | None:
        """Before it chooses, which may change them. ``None``: it cannot say, and this choice is not recorded."""
        try:
            return strategy.costs(facts, candidates)
        except Exception as error:  # noqa: BLE001 - no request may suffer
            if not self.unrecorded:
                _log.error("a strategy cannot tell its costs: those choices are not recorded", exc_info=error)
            self.unrecorded += 1
            return None
