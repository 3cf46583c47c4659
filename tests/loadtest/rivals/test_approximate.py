"""Event readers without events: their formula over their own guesses."""

from __future__ import annotations

import pytest

from loadtest.rivals import View, load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach

BOTH = ("dynamo_approximate", "llm_d_approximate")


@pytest.mark.parametrize("name", BOTH)
def test_a_prompt_goes_back_to_where_it_was_sent(name: str) -> None:
    """And what it has there need not be computed again, but for the last token or block."""
    rival = load(name)
    teach(rival, 1, (1, 2, 3))
    rival.ended(asked((1, 2, 3)), View(1))

    assert {load(name).select(asked((1, 2, 3)), fleet(0, 0, 0)).prefill_tokens} == {300}
    view, tokens = rival.select(asked((1, 2, 3, 4)), fleet(0, 0, 0))
    assert (view.number, tokens) == (1, 100)


@pytest.mark.parametrize("name", BOTH)
def test_what_events_would_tell_is_not_heard(name: str) -> None:
    """A holder that only events know of is as any other; and the views are as they were."""
    views = [View(0), View(1, l0_tokens=100, l1_tokens=100)]

    assert 0 in {load(name, {"seed": seed}).select(asked((1,)), views).view.number for seed in range(20)}
    assert (views[1].l0_tokens, views[1].l1_tokens) == (100, 100)


def test_dynamo_believes_for_two_minutes() -> None:
    """From the last use on."""
    for now, tokens in ((120.0, 1), (120.1, 100)):
        rival = load("dynamo_approximate")
        teach(rival, 0, (1,), now=0.0)
        assert rival.select(asked((1,), now=now), fleet(0)).prefill_tokens == tokens


def test_llm_d_keeps_as_much_as_a_gpu_holds() -> None:
    """Where replicas tell; else as much as its option says."""
    for rival, capacity in ((load("llm_d_approximate"), 2), (load("llm_d_approximate", {"list_tokens": 200}), 0)):
        views = fleet(0, capacity_blocks=capacity)
        rival.select(asked((1, 2)), views)
        rival.select(asked((3, 4)), views)
        assert rival.select(asked((3, 4, 5)), views).prefill_tokens == 100
        assert rival.select(asked((1, 2, 6)), views).prefill_tokens == 300


def test_llm_d_matches_the_beginning_only() -> None:
    """Of a prompt that is longer than ``match_tokens`` it knows no more than these."""
    rival = load("llm_d_approximate", {"match_tokens": 250})
    teach(rival, 0, (1, 2, 3, 4))

    assert rival.select(asked((1, 2, 3, 4)), fleet(0)).prefill_tokens == 200


def test_one_that_left_is_forgotten_by_the_formula_too() -> None:
    """What was in flight there does not count against it when it comes back; nor is its last cold prompt remembered."""
    found = set()
    for seed in range(20):
        dynamo = load("dynamo_approximate", {"seed": seed})
        teach(dynamo, 0, (1, 2))
        dynamo.left(0)
        found |= chosen(dynamo, asked((9,)), fleet(0, 0))
    staying, leaving = load("llm_d_approximate"), load("llm_d_approximate")
    for llm_d in (staying, leaving):
        teach(llm_d, 0, (1, 2))
    leaving.left(0)

    assert found == {0, 1}
    assert chosen(staying, asked((9,)), fleet(0, 0)) == {1}
    assert chosen(leaving, asked((9,)), fleet(0, 0)) == {0}
