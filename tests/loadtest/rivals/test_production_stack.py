"""vLLM production-stack: prefixaware and loadaware."""

from __future__ import annotations

import pytest

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach


def test_prefixaware_follows_the_longest_match_whatever_the_load() -> None:
    """It has no term for load."""
    rival = load("production_stack_prefixaware")
    teach(rival, 0, (1, 2))
    teach(rival, 1, (1,))

    assert chosen(rival, asked((1, 2, 3)), fleet(1000, 0, 0), 20) == {0}


def test_prefixaware_takes_any_of_equal_holders() -> None:
    """At random among those with the longest match; among all where nobody has one."""
    rival = load("production_stack_prefixaware")
    teach(rival, 0, (1,))
    teach(rival, 2, (1,))

    assert {rival.select(asked((1, n)), fleet(0, 0, 5)).view.number for n in range(10, 60)} == {0, 2}
    assert {rival.select(asked((n,)), fleet(0, 0, 5)).view.number for n in range(100, 150)} == {0, 1, 2}


def test_prefixaware_remembers_its_choice() -> None:
    """Whoever got a new prompt gets it again."""
    rival, views = load("production_stack_prefixaware"), fleet(0, 0, 0, 0)
    view, tokens = rival.select(asked((1, 2)), views)

    assert tokens == 200
    assert rival.select(asked((1, 2)), views) == (view, 0)


@pytest.mark.parametrize(("least_tokens", "chosen_number"), [(200, 0), (201, 1)])
def test_prefixaware_asks_for_a_least_length(least_tokens: int, chosen_number: int) -> None:
    """A match of 200 tokens is enough for a least length of 200; below it the fewest requests."""
    rival = load("production_stack_prefixaware", {"min_match_tokens": least_tokens})
    teach(rival, 0, (1, 2))

    assert chosen(rival, asked((1, 2, 3)), fleet(5, 0, 1)) == {chosen_number}


@pytest.mark.parametrize(("cached", "chosen_number"), [(51, 0), (49, 1)])
def test_loadaware_trades_the_cached_part_for_relative_load(cached: int, chosen_number: int) -> None:
    """5 and 3 in flight, a mean of 4: half of the prompt makes up for the difference of (5 - 3) / 4."""
    views = fleet(5, 3)
    views[0].l0_tokens = cached

    assert chosen(load("production_stack_loadaware"), asked((1,)), views, 20) == {chosen_number}


def test_loadaware_does_not_act_on_an_almost_idle_fleet() -> None:
    """Below a mean of 1 loads are divided by 1: one request in eight replicas is worth one whole prompt, no more."""
    views = fleet(1, *[0] * 7)
    views[0].l0_tokens = 100

    assert chosen(load("production_stack_loadaware", {"beta": 0.99}), asked((1,)), views, 20) == {0}


def test_loadaware_counts_no_more_than_the_prompt() -> None:
    """A match that was rounded up is worth one prompt; and nothing is left to compute."""
    views = fleet(0, 0)
    views[0].l0_tokens, views[1].l0_tokens = 150, 100
    rival = load("production_stack_loadaware")

    assert chosen(rival, asked((1,)), views, 50) == {0, 1}
    assert rival.select(asked((1,)), views[:1]).prefill_tokens == 0


def test_loadaware_without_a_holder_takes_the_fewest_requests() -> None:
    """Ties at random."""
    assert chosen(load("production_stack_loadaware"), asked((1,)), fleet(1, 0, 0), 50) == {1, 2}


def test_loadaware_reads_what_is_cached_and_prefixaware_does_not() -> None:
    """The one asks a controller that knows; the other goes by what it sent."""
    views = fleet(0, 0)
    views[0].l0_tokens = 100

    assert load("production_stack_loadaware").reads_events
    assert not load("production_stack_prefixaware").reads_events
    assert {
        load("production_stack_prefixaware", {"seed": n}).select(asked((1,)), views).view.number for n in range(9)
    } == {
        0,
        1,
    }
