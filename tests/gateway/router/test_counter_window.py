"""What a replica's counters say of predictions that usage does not tell of."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.fleet.load_report import LoadReport
from gateway.router.counter_window import CounterWindow, WindowResult


def report(queries: float | None, hits: float = 0.0, external: float | None = None, **sources: float) -> LoadReport:
    return LoadReport(prefix_queries=queries, prefix_hits=hits, external_hits=external, cached_by_source=dict(sources))


def a_window() -> CounterWindow:
    """One that has begun, at 1000 tokens looked up and 500 found."""
    window = CounterWindow()
    assert window.reported(report(1000, 500)) is None
    return window


def test_what_was_sent_is_what_was_looked_up() -> None:
    """Then the tokens found, in any tier, less those that usage told of, are those of the requests that wait."""
    window = a_window()
    window.ended(400, cached_tokens=320)
    window.wait(300, 160, "no_usage")
    window.wait(310, 160, "no_details")

    assert window.reported(report(2010, 1020, external=100)) == WindowResult(2, 610, 320, 300, Counter())


def test_what_others_found_is_not_theirs_who_wait() -> None:
    """Of one that is not to be verified, and did not tell: nobody knows whose the tokens found are."""
    window = a_window()
    window.ended(400, cached_tokens=None)
    window.wait(300, 160, "no_usage")

    assert window.reported(report(1700, 980)) == WindowResult(0, 300, 0, 0, Counter(no_usage=1))
    window.wait(300, 160, "no_usage")
    assert window.reported(report(2000, 1140)) == WindowResult(1, 300, 160, 160, Counter())


def test_requests_that_run_at_a_report_may_be_counted_by_the_next() -> None:
    """A window grows until both sides agree."""
    window = a_window()
    window.wait(300, 160, "no_usage")
    running = window.reported(report(1900, 700))
    window.wait(600, 400, "no_usage")

    assert running is None
    assert window.reported(report(1900, 1060)) == WindowResult(2, 900, 560, 560, Counter())


def test_others_talk_to_it() -> None:
    """The two sides never agree: nothing can be said, and that is said in the end."""
    window = a_window()
    queries, results = 1000, []
    for _ in range(20):
        window.wait(100, 96, "no_usage")
        queries += 300
        results.append(window.reported(report(queries, 500)))
    told = [result for result in results if result is not None]

    assert len(told) == 2
    assert told[0].requests == 0
    assert told[0].unverified == {"no_usage": told[0].prompt_tokens // 100}


@pytest.mark.parametrize("after", [report(None), report(10), report(1300, 10)])
def test_counters_that_vanish_or_begin_anew_say_nothing(after: LoadReport) -> None:
    """As of another process."""
    window = a_window()
    window.wait(300, 160, "no_usage")

    assert window.reported(after) == WindowResult(0, 300, 0, 0, Counter(no_usage=1))


def test_what_ended_before_the_first_report_is_unverified() -> None:
    """There is nothing to compare with."""
    window = CounterWindow()
    window.wait(300, 160, "no_usage")

    assert window.reported(report(300)) == WindowResult(0, 300, 0, 0, Counter(no_usage=1))


def test_where_unpredicted_tokens_came_from() -> None:
    """By tier as vLLM counts it; the GPU is what is left, and each token is told once."""
    window = CounterWindow()
    window.under(5)
    first = window.sources_of_under(report(0, device=10, host=100, disk=7))
    window.under(100)
    second = window.sources_of_under(report(0, device=900, host=160, disk=27, p2p=0))
    window.under(30)

    assert first == {"unknown": 5}
    assert second == {"host": 60, "disk": 20, "device": 20}
    assert window.sources_of_under(report(0)) == {"unknown": 30}
    assert window.sources_of_under(report(0)) == {}


def test_counters_that_began_anew_count_from_nothing() -> None:
    """Another process took the place of the one that was read before."""
    window = CounterWindow()
    window.sources_of_under(report(0, device=10, host=500))
    window.under(64)

    assert window.sources_of_under(report(0, device=0, host=64)) == {"host": 64}


def test_a_request_may_be_counted_by_a_report_before_its_end() -> None:
    """It ran then; what that report told of it is not forgotten."""
    window = CounterWindow()
    window.sources_of_under(report(0, device=10, external_unspecified=0))
    window.sources_of_under(report(0, device=10, external_unspecified=640))
    window.under(600)
    first = window.sources_of_under(report(0, device=10, external_unspecified=640))
    window.under(100)
    second = window.sources_of_under(report(0, device=74, external_unspecified=640))

    assert first == {"external_unspecified": 600}
    assert second == {"external_unspecified": 40, "device": 60}
