"""FindingBook: the findings in force, and since when.

Synchronous state. Findings come from two sides: what was seen (:meth:`FindingBook.seen`, all of it again and again)
and what was checked (:meth:`FindingBook.checked`, one replica at a time, until it is checked again). What was checked
explains what was seen: where a check named the cause, the mere symptom is not told beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gateway.check.finding import Finding
from gateway.check.verdict import Verdict

#: Symptoms, which any other finding of the chain at the same replica explains.
_SYMPTOMS = frozenset({"over_predicted", "under_predicted", "unconfirmed"})
#: States that explain nothing.
_NO_CAUSE = _SYMPTOMS | {"coverage_low", "replay_absent", "replay_stale", "metrics_unknown"}
#: Guesses, by which check's finding would be the true name.
_BETTER_NAMES: Mapping[str, Collection[str]] = {
    "template_differs": ("tokenizer_differs",),
    "removals_lost": ("restart_unnoticed", "events_of_another"),
}

_Place = tuple[str, str]  # a finding's name and replica


class Standing(NamedTuple):
    """A finding in force since ``since_s``, of the book's clock."""

    finding: Finding
    since_s: float


class FindingBook:
    """``clock``: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: Mapping[_Place, Finding] = {}
        self._checked: dict[str, dict[str, list[Finding]]] = {}  # by checked replica and check
        self._since: dict[_Place, float] = {}

    def __repr__(self) -> str:
        return f"<FindingBook {[f'{f.name} {f.replica_id}' for f, _ in self.standing()]}>"

    def seen(self, findings: Iterable[Finding]) -> None:
        """All that is to be seen now."""
        self._seen = {(finding.name, finding.replica_id): finding for finding in findings}
        self._note()

    def checked(self, replica_id: str, verdicts: Iterable[Verdict]) -> None:
        """A replica was checked: these replace its earlier verdicts. What a check could not tell stays as it was."""
        before, now = self._checked.get(replica_id, {}), dict[str, list[Finding]]()
        for verdict in verdicts:
            if verdict.skipped:
                now.setdefault(verdict.check, before.get(verdict.check, []))
            else:
                now.setdefault(verdict.check, [])
        for verdict in verdicts:
            if verdict.finding is not None:
                now[verdict.check] = [*(f for f in now[verdict.check] if f.name != verdict.word), verdict.finding]
        self._checked[replica_id] = now
        self._note()

    def checked_once(self, replica_id: str, verdict: Verdict) -> None:
        """One check was made again, by itself."""
        found = [] if verdict.finding is None else [verdict.finding]
        self._checked.setdefault(replica_id, {})[verdict.check] = found
        self._note()

    def forget_all_but(self, replica_ids: Collection[str]) -> None:
        """Replicas leave, and what was found there with them."""
        self._checked = {id_: found for id_, found in self._checked.items() if id_ in replica_ids}
        self._note()

    def standing(self) -> Sequence[Standing]:
        """Those in force, the oldest first."""
        return sorted(
            (Standing(finding, self._since[place]) for place, finding in self._in_force().items()),
            key=lambda standing: standing.since_s,
        )

    def _all_checked(self) -> Iterable[Finding]:
        return chain.from_iterable(found for checks in self._checked.values() for found in checks.values())

    def _in_force(self) -> dict[_Place, Finding]:
        checked = {(finding.name, finding.replica_id): finding for finding in self._all_checked()}
        both = {**self._seen, **checked}
        causes = {replica_id for name, replica_id in both if name not in _NO_CAUSE}
        return {
            place: finding
            for place, finding in both.items()
            if not (place[0] in _SYMPTOMS and place[1] in causes)
            and not any((better, place[1]) in checked for better in _BETTER_NAMES.get(place[0], ()))
        }

    def _note(self) -> None:
        now = self._clock()
        self._since = {place: self._since.get(place, now) for place in self._in_force()}
