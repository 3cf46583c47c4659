"""KubeAI: consistent hashing of the prompt's beginning, with bounded loads."""

from __future__ import annotations

import pytest

from loadtest.rivals import load
from tests.loadtest.rivals.hand_made import asked, chosen, fleet


def test_the_beginning_decides_and_nothing_after_it() -> None:
    """Prompts with one first block are one key; others are spread."""
    rival, views = load("chwbl"), fleet(0, 0, 0, 0)

    assert len({rival.select(asked((1, end)), views).view.number for end in range(50)}) == 1
    assert {rival.select(asked((first, 2)), views).view.number for first in range(50)} == {0, 1, 2, 3}


@pytest.mark.parametrize(("in_flight", "stays"), [(7, True), (8, False)])
def test_home_is_left_above_125_percent_of_the_mean(in_flight: int, stays: bool) -> None:
    """Beside three with 6: 7 + 1 <= 1.25 * (25 + 1) / 4 = 8.1, and 8 + 1 is above 1.25 * (26 + 1) / 4 = 8.4."""
    rival, views = load("chwbl"), fleet(0, 0, 0, 0)
    home = rival.select(asked((1,)), views).view
    for view in views:
        view.inflight = in_flight if view is home else 6

    assert (rival.select(asked((1,)), views).view is home) is stays


def test_the_next_on_the_ring_takes_over() -> None:
    """A key spills to the same second replica every time."""
    rival, views = load("chwbl"), fleet(0, 0, 0, 0)
    rival.select(asked((1,)), views).view.inflight = 100

    assert len(chosen(rival, asked((1,)), views, 20)) == 1


def test_an_idle_fleet_has_no_bound() -> None:
    """The first request goes home, though one of sixteen replicas is above 125 % of the mean with it."""
    assert len(chosen(load("chwbl"), asked((1,)), fleet(*[0] * 16), 20)) == 1


def test_where_nobody_fits_the_first_does() -> None:
    """A bound that nobody can keep sends everything home."""
    rival, views = load("chwbl", {"load_factor": 0.1}), fleet(0, 0, 0, 0)
    home = rival.select(asked((1,)), views).view
    for view in views:
        view.inflight = 5

    assert rival.select(asked((1,)), views).view is home


def test_a_prompt_without_a_full_block_is_known_by_its_session() -> None:
    """Short prompts do not all share one replica."""
    rival, views = load("chwbl"), fleet(0, 0, 0, 0)

    assert {rival.select(asked((), session=f"s{n}"), views).view.number for n in range(50)} == {0, 1, 2, 3}


def test_a_longer_beginning_may_be_the_key() -> None:
    """With two blocks prompts that differ in the second are spread, and what comes after does not matter."""
    rival, views = load("chwbl", {"key_blocks": 2}), fleet(0, 0, 0, 0)

    assert {rival.select(asked((1, second)), views).view.number for second in range(50)} == {0, 1, 2, 3}
    assert len({rival.select(asked((1, 2, end)), views).view.number for end in range(50)}) == 1
