"""The breaker opens after failures in a row, and closes for what shows that their reason is gone."""

from __future__ import annotations

from gateway.shared.link.link_breaker import LinkBreaker


def test_it_opens_after_three_without_an_answer_and_closes_with_any() -> None:
    """The heartbeat's answer is enough, however late."""
    breaker = LinkBreaker()
    for _ in range(3):
        assert breaker.is_closed
        breaker.unanswered()

    assert not breaker.is_closed
    breaker.answered()
    assert breaker.is_closed


def test_failures_with_answers_between_do_not_open_it() -> None:
    """Only those in a row count."""
    breaker = LinkBreaker()
    for _ in range(5):
        breaker.unanswered()
        breaker.late()
        breaker.unanswered()
        breaker.in_time()

    assert breaker.is_closed


def test_late_lookups_open_it_and_only_a_lookup_in_time_closes_it() -> None:
    """A Redis that answers everything, but too late for requests, is not tried with every heartbeat."""
    breaker = LinkBreaker()
    for _ in range(3):
        breaker.late()
        breaker.answered()

    assert not breaker.is_closed
    breaker.answered()
    assert not breaker.is_closed
    breaker.in_time()
    assert breaker.is_closed


def test_lateness_that_was_an_outage_ends_with_it() -> None:
    """Lookups of a Redis that is gone are late first and unanswered then."""
    breaker = LinkBreaker()
    for _ in range(3):
        breaker.late()
        breaker.unanswered()

    breaker.answered()

    assert breaker.is_closed
