"""What an ending says about a server, and what is tried after it."""

from __future__ import annotations

import pytest

from gateway.fleet.outcome import Again, Outcome, Sign, outcome_of
from scripts.failures_table import PAGE


def _with(sign: Sign) -> set[Outcome]:
    return {outcome for outcome in Outcome if outcome.sign is sign}


def test_what_counts_against_a_server() -> None:
    """5xx, broken and missing connections and silence; never what a client did, never pushback by 429."""
    assert _with(Sign.FAILURE) == {
        Outcome.UNAVAILABLE,
        Outcome.SERVER_ERROR,
        Outcome.ENGINE_ERROR,
        Outcome.UNREACHABLE,
        Outcome.BROKEN,
        Outcome.CUT_OFF,
        Outcome.FIRST_BYTE_TIMEOUT,
        Outcome.CHUNK_TIMEOUT,
    }


def test_only_a_real_success_speaks_for_a_server() -> None:
    """A 404 or 400 comes from a process whose engine may hang: it says nothing, neither against nor for it."""
    assert _with(Sign.LIFE) == {Outcome.OK}


def test_what_is_tried_again() -> None:
    """A wait that was long enough, and what a client has seen the beginning of, is not."""
    again = {outcome: outcome.again for outcome in Outcome if outcome.again is not Again.NO}

    assert again == {
        Outcome.BUSY: Again.ONCE,
        Outcome.UNAVAILABLE: Again.ONCE,
        Outcome.SERVER_ERROR: Again.ONCE,
        Outcome.UNREACHABLE: Again.EACH,
        Outcome.BROKEN: Again.EACH,
        Outcome.STALE: Again.RESENT,
    }


def test_pushback_is_given_way_to() -> None:
    """429 and 503: the server asked for a pause."""
    assert [outcome for outcome in Outcome if outcome.backs_off] == [Outcome.BUSY, Outcome.UNAVAILABLE]


def test_labels_are_words() -> None:
    """They become labels of metrics, and each is one ending's."""
    assert all(outcome.label.isidentifier() and outcome.label == outcome.value for outcome in Outcome)
    assert len({outcome.label for outcome in Outcome}) == len(Outcome)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.OK),
        (204, Outcome.OK),
        (302, Outcome.OK),
        (400, Outcome.CLIENT_ERROR),
        (404, Outcome.CLIENT_ERROR),
        (422, Outcome.CLIENT_ERROR),
        (429, Outcome.BUSY),
        (500, Outcome.SERVER_ERROR),
        (502, Outcome.SERVER_ERROR),
        (503, Outcome.UNAVAILABLE),
        (599, Outcome.SERVER_ERROR),
    ],
)
def test_statuses_are_told_apart(status: int, outcome: Outcome) -> None:
    """The client's faults, pushback and the server's faults are different signals."""
    assert outcome_of(status) is outcome


def test_the_page_shows_the_table() -> None:
    """`python scripts/failures_table.py` writes it."""
    page = PAGE.text()

    assert page == PAGE.fresh()
    assert all(f"| `{outcome.label}` |" in page for outcome in Outcome)
