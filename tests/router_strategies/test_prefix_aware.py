"""prefix_aware: the longest prefix, bounded by the queue before it."""

from __future__ import annotations

from collections import Counter

import pytest

from router_strategies import Candidate, RouteRequest, load


def _choose(fleet: list[Candidate], prompt_tokens: int = 1_200, **options: object) -> tuple[str, str]:
    choice = load("prefix_aware", options).select(RouteRequest(prompt_tokens), fleet)
    return choice.candidate.id, choice.reason


@pytest.mark.parametrize(
    ("queued", "chosen", "reason"),
    [(0, "holder", "prefix"), (2_000, "holder", "prefix"), (4_000, "other", "spill")],
)
def test_a_holder_is_left_when_its_queue_outweighs_its_prefix(queued: int, chosen: str, reason: str) -> None:
    """1,000 spared tokens are worth 3,000 queued ones, not 4,000."""
    fleet = [Candidate("holder", expected_tokens=1_000, inflight_tokens=queued), Candidate("other")]

    assert _choose(fleet) == (chosen, reason)


def test_without_a_prefix_the_least_loaded() -> None:
    """A prompt nobody knows goes where least is in flight."""
    assert _choose([Candidate("busy", inflight=4), Candidate("idle")]) == ("idle", "least_loaded")


def test_a_prompt_that_cannot_be_known_goes_where_least_is_queued() -> None:
    """An image, or no tokenizer: 0 tokens, and no prefix."""
    fleet = [Candidate("long", inflight=1, inflight_tokens=90_000), Candidate("short", inflight=9)]

    assert _choose(fleet, prompt_tokens=0) == ("short", "least_loaded")


def test_needs_neither_seconds_nor_reports_nor_capacities() -> None:
    """The choice is the same without all of them."""
    bare = [Candidate("a", expected_tokens=600, inflight_tokens=1_000, inflight=2), Candidate("b", inflight=1)]
    full = [
        Candidate("a", expected_tokens=600, inflight_tokens=1_000, inflight=2, prefill_s=9, promised_s=99, waiting=50),
        Candidate("b", inflight=1, kv_usage=1.0, kv_blocks_used=1_000, kv_blocks_capacity=1_000),
    ]

    assert _choose(bare) == _choose(full) == ("a", "prefix")


def test_a_hot_prefix_is_copied_sooner() -> None:
    """A queue of 2,000 tokens is borne for 1,000 spared, but not when ten share them: a copy will be of use."""
    alone, hot = (
        [Candidate("holder", expected_tokens=1_000, inflight_tokens=2_000, sharing=sharing), Candidate("other")]
        for sharing in (1, 10)
    )

    assert _choose(alone) == ("holder", "prefix")
    assert _choose(hot) == ("other", "spill")
    assert _choose(hot, hot_gain=0) == ("holder", "prefix")


def test_an_overloaded_neighbour_does_not_take_affinity_from_others() -> None:
    """One replica with a huge queue changes nothing for a request whose holder is idle."""
    fleet = [
        Candidate("other"),
        Candidate("overloaded", inflight_tokens=500_000, inflight=200),
        Candidate("holder", expected_tokens=1_000),
    ]

    assert _choose(fleet) == ("holder", "prefix")


def test_many_that_decode_outweigh_a_short_prefix() -> None:
    """With short prompts and long answers no tokens are queued: then requests are balanced."""
    fleet = [Candidate("holder", expected_tokens=256, inflight=100), Candidate("other", inflight=10)]

    assert _choose(fleet, prompt_tokens=300) == ("other", "spill")


def test_of_several_holders_the_least_loaded() -> None:
    """A copied prefix is used wherever it lies."""
    fleet = [Candidate(id_, expected_tokens=1_000, inflight=inflight) for id_, inflight in (("a", 3), ("b", 1))]

    assert _choose([*fleet, Candidate("c")]) == ("b", "prefix")


def test_ties_are_broken_at_random() -> None:
    """Three holders share what comes."""
    strategy, chosen = load("prefix_aware", {"seed": 1}), Counter[str]()
    for _ in range(300):
        fleet = [*(Candidate(id_, expected_tokens=1_000) for id_ in "abc"), Candidate("d")]
        chosen[strategy.select(RouteRequest(1_200), fleet).candidate.id] += 1

    assert set(chosen) == set("abc")
    assert min(chosen.values()) > 70


def test_what_only_events_tell_counts_as_far_as_they_are_trusted() -> None:
    """Of two holders the one whose events can be believed, or to which the prompt was sent just now."""
    doubted = Candidate("doubted", l0_tokens=1_000, expected_tokens=1_000, trust=0.3)
    believed = Candidate("believed", l0_tokens=600, expected_tokens=600)
    sent = Candidate("sent", l0_tokens=100, expected_tokens=900, trust=0.3)

    assert _choose([doubted, believed])[0] == "believed"
    assert _choose([doubted, believed, sent])[0] == "sent"
