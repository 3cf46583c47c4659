"""Verdict: what one check says of one replica."""

from __future__ import annotations

from typing import NamedTuple

from gateway.check.finding import Finding, found


class Verdict(NamedTuple):
    """Fine, or with a ``finding``, or ``skipped``: ``detail`` then says why nothing can be said."""

    check: str
    replica_id: str
    detail: str = ""
    finding: Finding | None = None
    skipped: bool = False

    @property
    def word(self) -> str:
        """The verdict in one word: ok, skipped, or the finding's name."""
        if self.finding is not None:
            return self.finding.name
        return "skipped" if self.skipped else "ok"


def fine(check: str, replica_id: str, detail: str = "") -> Verdict:
    return Verdict(check, replica_id, detail)


def skipped(check: str, replica_id: str, why: str) -> Verdict:
    return Verdict(check, replica_id, why, skipped=True)


def wrong(check: str, replica_id: str, name: str, detail: str, *, of: str | None = None) -> Verdict:
    """``name``: of the finding. ``of``: whose it is, where that is another than the replica that was checked."""
    return Verdict(check, replica_id, detail, found(name, replica_id if of is None else of, detail))
