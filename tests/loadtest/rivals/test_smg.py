"""smg's least_load and prefix_hash."""

from __future__ import annotations

import pytest

from loadtest.rivals import View, load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet


@pytest.mark.parametrize(("waiting_tokens", "chosen_number"), [(299, 0), (301, 1)])
def test_least_load_trades_waiting_tokens_for_free_memory(waiting_tokens: int, chosen_number: int) -> None:
    """Half full is 0.15 s, as long as 300 tokens at 2,000 a second; requests in flight do not count."""
    views = [View(0, pending_tokens=waiting_tokens, inflight=9), View(1, kv_usage=0.5)]

    assert chosen(load("smg_least_load"), asked(()), views, 20) == {chosen_number}


def test_least_load_shuns_full_memory() -> None:
    """It costs very much, but there is an answer when all are full."""
    rival = load("smg_least_load")

    assert chosen(rival, asked(()), [View(0, kv_usage=1.0), View(1, pending_tokens=100_000)]) == {1}
    assert chosen(rival, asked(()), [View(0, kv_usage=1.0), View(1, kv_usage=1.0)], 50) == {0, 1}


def test_prefix_hash_keeps_a_beginning_at_home() -> None:
    """Prompts with one first block are one key; others, and short ones of other sessions, are spread."""
    rival, views = load("smg_prefix_hash"), fleet(0, 0, 0, 0)

    assert len({rival.select(asked((1, end)), views).view.number for end in range(50)}) == 1
    assert {rival.select(asked((first,)), views).view.number for first in range(50)} == {0, 1, 2, 3}
    assert {rival.select(asked((), session=f"s{n}"), views).view.number for n in range(50)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("at_home", "others", "stays"), [(13, 0, True), (14, 0, False), (89, 65, True), (90, 65, False)]
)
def test_prefix_hash_leaves_a_home_far_above_the_mean(at_home: int, others: int, stays: bool) -> None:
    """13 <= 3.5 + 10, and 14 is above 3.75 + 10; beside 65, 89 <= 1.25 * 71.25, and 90 is above 1.25 * 71.5."""
    rival, views = load("smg_prefix_hash"), fleet(0, 0, 0, 0)
    home = rival.select(asked((1,)), views).view
    for view in views:
        view.inflight = at_home if view is home else others

    assert (rival.select(asked((1,)), views).view is home) is stays


def test_prefix_hash_spills_to_the_least_loaded() -> None:
    """Not to the next on the ring."""
    rival, views = load("smg_prefix_hash"), fleet(5, 5, 5, 5)
    home = rival.select(asked((1,)), views).view
    home.inflight = 100
    idle = views[(home.number + 2) % 4]
    idle.inflight = 1

    assert chosen(rival, asked((1,)), views, 20) == {idle.number}
