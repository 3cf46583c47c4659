"""What an ending says about a server."""

from __future__ import annotations

from gateway.fleet.outcome import Outcome


def test_what_counts_against_a_server() -> None:
    """5xx, broken and missing connections and silence; never what a client did, never pushback by 429."""
    assert {outcome for outcome in Outcome if outcome.is_failure} == {
        Outcome.UNAVAILABLE,
        Outcome.SERVER_ERROR,
        Outcome.UNREACHABLE,
        Outcome.BROKEN,
        Outcome.TIMEOUT,
    }
