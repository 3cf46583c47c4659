"""Verdicts in a word."""

from __future__ import annotations

from gateway.check.verdict import fine, skipped, wrong


def test_a_verdict_is_ok_skipped_or_the_name_of_its_finding() -> None:
    assert fine("salt", "a").word == "ok"
    assert skipped("salt", "a", "busy").word == "skipped"
    assert wrong("salt", "a", "salt_dropped", "detail").word == "salt_dropped"


def test_a_finding_may_be_anothers() -> None:
    verdict = wrong("events", "a", "events_of_another", "detail", of="b")

    assert verdict.replica_id == "a"
    assert verdict.finding is not None
    assert verdict.finding.replica_id == "b"
