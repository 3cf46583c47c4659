"""The last words of a stream that its replica left unfinished."""

from __future__ import annotations

import json

import pytest

from gateway.edge.error_event import error_event
from gateway.errors import ReplicaUnreachable

REASON = ReplicaUnreachable("The replica broke off.", code="replica_broke_off")
FIELDS = {"message": "The replica broke off.", "type": "bad_gateway", "param": None, "code": "replica_broke_off"}


@pytest.mark.parametrize("route", ["chat", "completions", "embeddings"])
def test_most_apis_get_a_bare_error(route: str) -> None:
    """One event, one line of data."""
    event = error_event(route, REASON, mid_event=False)

    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event.removeprefix(b"data: "))["error"] == FIELDS


def test_responses_and_messages_get_a_named_event() -> None:
    """With the fields that each API puts beside the error."""
    for route in ("responses", "messages"):
        name, data = error_event(route, REASON, mid_event=False).removesuffix(b"\n\n").split(b"\n")
        told = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: error"
        assert (told["type"], told["error"]) == ("error", FIELDS)
    assert json.loads(error_event("responses", REASON, mid_event=False).split(b"data: ")[1])["message"]


def test_an_event_that_was_cut_in_half_is_ended_first() -> None:
    """Else the error would be part of it."""
    assert error_event("chat", REASON, mid_event=True).startswith(b"\n\ndata: ")
