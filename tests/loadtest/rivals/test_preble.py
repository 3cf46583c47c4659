"""Preble: exploit or explore."""

from __future__ import annotations

import pytest

from loadtest.replica.scheduler import Speeds
from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach

NAME = "preble"
SLOW = {
    "speeds": Speeds(prefill_tokens_per_s=100.0, attention_tokens=float("inf")),
    "decode_tokens": 0.0,
}  # 1 s a block


@pytest.mark.parametrize(("tokens", "chosen_number"), [(199, 0), (200, 1)])
def test_a_prefix_is_exploited_where_it_is_more_than_half(tokens: int, chosen_number: int) -> None:
    """100 of 199 tokens; at exactly half the least cost decides, and the holder has work from before."""
    rival = load(NAME, SLOW)
    teach(rival, 0, (1,))
    teach(rival, 0, (7, 8))

    assert chosen(rival, asked((1,), tokens=tokens), fleet(0, 0)) == {chosen_number}


def test_of_several_holders_the_least_work() -> None:
    """Both have the prefix; one was given more since, or has more in flight."""
    rival = load(NAME, SLOW)
    teach(rival, 0, (1,))
    teach(rival, 1, (1,))
    teach(rival, 0, (5,))
    assert chosen(rival, asked((1,)), fleet(0, 0, 0)) == {1}

    for seed in range(9):
        rival = load(NAME, {"seed": seed})
        teach(rival, 0, (1,))
        teach(rival, 1, (1,))
        assert chosen(rival, asked((1,)), fleet(0, 1, 0)) == {0}


def test_cold_prompts_go_where_least_was_given() -> None:
    """Seconds of prefill within the window, not requests."""
    rival = load(NAME, SLOW)
    teach(rival, 0, (1, 2, 3))
    teach(rival, 1, (4,))
    teach(rival, 1, (5,))

    assert chosen(rival, asked((9,)), fleet(0, 0)) == {1}


def test_work_counts_for_three_minutes() -> None:
    """After that both are equal."""
    for now, expected in ((180.0, {1}), (180.1, {0, 1})):
        found = set()
        for seed in range(20):
            rival = load(NAME, {**SLOW, "seed": seed})
            teach(rival, 0, (1, 2), now=0.0)
            found |= chosen(rival, asked((9,), now=now), fleet(0, 0))
        assert found == expected


@pytest.mark.parametrize(("work_of_holder", "chosen_number"), [(2, 0), (4, 1)])
def test_exploring_counts_a_match_as_time_spared(work_of_holder: int, chosen_number: int) -> None:
    """Three blocks of seven are 3 s: more than 2 s of work (one block of the prefix's three is counted in it)."""
    rival = load(NAME, SLOW)
    teach(rival, 0, (1, 2, 3), now=-1000.0)
    teach(rival, 0, range(50, 50 + work_of_holder))

    assert chosen(rival, asked(range(1, 8)), fleet(0, 0)) == {chosen_number}


def test_exploring_counts_what_would_be_evicted() -> None:
    """Both were given 2 s; the blocks of one are in use by all its requests, those of the other are of the past."""
    rival = load(NAME, SLOW)
    full = fleet(0, capacity_blocks=2)[0]
    other = fleet(0, 0, capacity_blocks=4)[1]
    rival.select(asked((1, 2)), [full])
    rival.select(asked((3, 4)), [other])

    assert chosen(rival, asked((8, 9)), [full, other]) == {1}


@pytest.mark.parametrize(("work", "chosen_number"), [(15, 0), (16, 1)])
def test_the_busiest_gives_up_above_fifteen_times_the_idlest(work: int, chosen_number: int) -> None:
    """15 s against 1 s are borne, 16 s are not; where the idlest has nothing there is no such ratio."""
    rival = load(NAME, SLOW)
    teach(rival, 0, range(work))
    teach(rival, 1, (900,))

    assert chosen(rival, asked(range(work)), fleet(0, 0)) == {chosen_number}


def test_it_knows_no_more_than_a_replica_can_hold() -> None:
    """With room for two blocks the prompt before is forgotten."""
    rival, views = load(NAME, SLOW), fleet(0, capacity_blocks=2)
    rival.select(asked((1, 2)), views)
    rival.select(asked((3, 4), now=1.0), views)

    assert rival.select(asked((3, 4), now=2.0), views).prefill_tokens == 0
    assert rival.select(asked((1, 2), now=2.0), views).prefill_tokens == 200
