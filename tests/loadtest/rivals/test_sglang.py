"""cache_aware of SGLang and vLLM Router, and smg's with a gate for each replica."""

from __future__ import annotations

import pytest

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet, teach

BOTH = ("cache_aware", "cache_aware_per_worker")


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(("tokens", "chosen_number"), [(999, 0), (1000, 1)])
def test_a_match_must_be_more_than_three_tenths(name: str, tokens: int, chosen_number: int) -> None:
    """300 tokens of 999 are enough; of 1,000 they are not, and the least loaded is taken."""
    rival = load(name)
    teach(rival, 0, (1, 2, 3))

    assert chosen(rival, asked((1, 2, 3, 4), tokens=tokens), fleet(1, 0)) == {chosen_number}


@pytest.mark.parametrize(("loads", "chosen_number"), [((65, 1), 0), ((66, 1), 1), ((210, 140), 0), ((211, 140), 1)])
def test_cache_aware_gives_up_affinity_where_loads_differ(loads: tuple[int, int], chosen_number: int) -> None:
    """Above 64 requests between the most and the fewest, and above 1.5 times the fewest."""
    rival = load("cache_aware")
    teach(rival, 0, (1,))

    assert chosen(rival, asked((1,)), fleet(*loads)) == {chosen_number}


def test_cache_aware_lets_one_busy_replica_end_affinity_for_all() -> None:
    """The owner of a prompt is idle, and still loses it: the fault that led to the gate for each replica."""
    cache_aware, per_worker = load("cache_aware"), load("cache_aware_per_worker")
    for rival in (cache_aware, per_worker):
        teach(rival, 1, (1,))
    views = fleet(100, 1, 0, 0)

    assert chosen(cache_aware, asked((1,)), views) <= {2, 3}
    assert chosen(per_worker, asked((1,)), views) == {1}


@pytest.mark.parametrize(("load_of_holder", "chosen_number"), [(7, 0), (8, 1)])
def test_per_worker_leaves_a_holder_far_above_the_mean(load_of_holder: int, chosen_number: int) -> None:
    """7 and 2 three times: a mean of 3.25, a margin of 4, so 7 stays; 8: a mean of 3.5, and 8 is above 7.5."""
    rival = load("cache_aware_per_worker")
    teach(rival, 0, (1,))

    assert chosen(rival, asked((1,)), fleet(load_of_holder, 1, 3, 2)) == {chosen_number}


@pytest.mark.parametrize(("load_of_holder", "stays"), [(162, True), (163, False)])
def test_per_worker_needs_both_margins(load_of_holder: int, stays: bool) -> None:
    """Beside 90: 162 is not above 1.5 times the mean of 108, though far above the mean and two deviations, 128.8."""
    rival = load("cache_aware_per_worker")
    teach(rival, 0, (1,))

    assert (chosen(rival, asked((1,)), fleet(load_of_holder, 90, 90, 90)) == {0}) is stays


def test_per_worker_caps_the_margin_by_its_option() -> None:
    """A lower threshold than the natural swing is the margin."""
    rival = load("cache_aware_per_worker", {"balance_abs_threshold": 1})
    teach(rival, 0, (1,))

    assert chosen(rival, asked((1,)), fleet(4, 0, 1, 1)) == {1}


def test_per_worker_takes_the_least_loaded_holder() -> None:
    """Of two with the same match the one with fewer requests."""
    rival = load("cache_aware_per_worker")
    teach(rival, 0, (1,))
    teach(rival, 1, (1,))

    assert chosen(rival, asked((1,)), fleet(3, 2, 0), 20) == {1}


@pytest.mark.parametrize("name", BOTH)
def test_a_longer_match_beats_a_lower_load(name: str) -> None:
    """Below the gates load does not matter."""
    rival = load(name)
    teach(rival, 0, (1, 2))
    teach(rival, 1, (1,))

    assert chosen(rival, asked((1, 2)), fleet(3, 0)) == {0}


@pytest.mark.parametrize("name", BOTH)
def test_spilling_teaches_the_tree(name: str) -> None:
    """Whoever takes over a prompt is a holder from then on."""
    rival, views = load(name), fleet(100, 0)
    teach(rival, 0, (1,))
    rival.select(asked((1,)), views)
    views[0].inflight = 0

    assert chosen(rival, asked((1,)), views, 50) == {0, 1}


@pytest.mark.parametrize("name", BOTH)
def test_the_tree_is_bounded(name: str) -> None:
    """With room for 200 tokens the older of two prompts is forgotten: it goes to the least loaded again."""
    rival = load(name, {"max_tree_tokens": 200})
    teach(rival, 0, (1, 2))
    teach(rival, 0, (3, 4), now=1.0)

    assert chosen(rival, asked((3, 4)), fleet(1, 0)) == {0}
    assert chosen(rival, asked((1, 2)), fleet(1, 0)) == {1}


def test_cold_prompts_may_go_to_the_smallest_tree() -> None:
    """The older rule looks at no load; a wrong word for it is refused."""
    rival = load("cache_aware", {"cold": "smallest_tree"})
    teach(rival, 0, (1, 2))
    teach(rival, 1, (3,))

    assert chosen(rival, asked((8,)), fleet(0, 9)) == {1}
    with pytest.raises(ValueError, match="least_loaded or smallest_tree, not 'any'"):
        load("cache_aware", {"cold": "any"})
