"""prefix_aware: the longest prefix, bounded by the queue before it."""

from __future__ import annotations

import pytest

from router_strategies import Candidate, RouteRequest, load


@pytest.mark.parametrize(
    ("queued", "chosen", "reason"),
    [(0, "holder", "prefix"), (2_000, "holder", "prefix"), (4_000, "other", "spill")],
)
def test_a_holder_is_left_when_its_queue_outweighs_its_prefix(queued: int, chosen: str, reason: str) -> None:
    """1,000 spared tokens are worth 3,000 queued ones, not 4,000."""
    fleet = [Candidate("holder", expected_tokens=1_000, inflight_tokens=queued), Candidate("other")]

    choice = load("prefix_aware").select(RouteRequest(1_200), fleet)

    assert (choice.candidate.id, choice.reason) == (chosen, reason)


def test_without_a_prefix_the_least_loaded() -> None:
    """A prompt nobody knows goes where least is in flight."""
    fleet = [Candidate("busy", inflight=4), Candidate("idle")]

    choice = load("prefix_aware").select(RouteRequest(1_200), fleet)

    assert (choice.candidate.id, choice.reason) == ("idle", "least_loaded")
