"""Shadows: strategies that are asked at the first attempt of each request, and not heeded.

What they would have chosen is weighed by the one cost model, with the loads that the heeded strategy made: had a shadow
been heeded, it would have met loads of its own making. So its regret is a prediction, not a measurement.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from router_strategies import Candidate, RouteRequest, Strategy

_log = logging.getLogger(__name__)


class Regret(NamedTuple):
    """What heeding the shadow would have changed, by prediction; negative: for the worse.

    ``seconds``: of work promised and prefill before the first token, saved. ``cached_tokens``: of the prompt, more.
    """

    seconds: float
    cached_tokens: int


class ShadowBook(Protocol):
    """Who keeps count. ``shadow`` and ``strategy`` are names: who was asked, and who was heeded."""

    def agreed(self, shadow: str, strategy: str) -> None:
        """It would have chosen the same replica."""
        ...

    def differed(self, shadow: str, strategy: str, regret: Regret) -> None: ...

    def failed(self, shadow: str) -> None:
        """It raised."""
        ...


class Shadows:
    """``strategies``: by name, each an instance that nobody else asks."""

    def __init__(self, strategies: Mapping[str, Strategy], book: ShadowBook) -> None:
        self._strategies = dict(strategies)
        self._book = book
        self._complained: set[str] = set()

    @property
    def reads_prompt(self) -> bool:
        """Whether one of them wants to know the prompt."""
        return any(strategy.reads_prompt for strategy in self._strategies.values())

    def ask(
        self, heeded: str, request: RouteRequest, candidates: Sequence[Candidate], chosen: Candidate
    ) -> dict[str, str]:
        """Ask each, and count. ``heeded``: the strategy that chose ``chosen``. Answers with replica ids by shadow;
        one that fails is left out.
        """
        answers: dict[str, str] = {}
        for name, strategy in self._strategies.items():
            try:
                preferred = strategy.select(request, candidates).candidate
                answers[name] = preferred.id
            except Exception as error:  # noqa: BLE001 - no request may suffer
                self._failed(name, error)
                continue
            if preferred.id == chosen.id:
                self._book.agreed(name, heeded)
            else:
                self._book.differed(name, heeded, _regret(chosen, preferred))
        return answers

    def _failed(self, name: str, error: Exception) -> None:
        self._book.failed(name)
        if name not in self._complained:
            self._complained.add(name)
            _log.error("the shadow strategy %s fails; more of it is counted only", name, exc_info=error)


def _regret(chosen: Candidate, preferred: Candidate) -> Regret:
    seconds = chosen.promised_s + chosen.prefill_s - preferred.promised_s - preferred.prefill_s
    return Regret(seconds, preferred.expected_tokens - chosen.expected_tokens)
