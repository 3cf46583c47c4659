"""How far two sides rank strategies alike."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest

from loadtest.live.agreement import Pair, decided, kendall, ranks, table, verdict
from loadtest.replay.figures import Figures
from tests.loadtest.replay.hand_made import FIGURES


def figures(hit: float, ttft_s: float) -> Figures:
    return replace(FIGURES, hit_l0=hit, hit_l1=0.0, hit_l2=0.0, ttft_mean_s=ttft_s)


PAIRS = [
    Pair("a", figures(0.2, 2.0), [figures(0.25, 1.0), figures(0.25, 1.2)]),
    Pair("b", figures(0.5, 1.0), [figures(0.45, 1.1), figures(0.55, 1.3)]),
    Pair("c", figures(0.8, 2.5), [figures(0.8, 0.4)]),
]


def test_ranks_from_the_best() -> None:
    assert ranks([3.0, 1.0, 2.0]) == [3, 1, 2]
    assert ranks([3.0, 1.0, 3.0], highest_first=True) == [1, 3, 1]
    assert ranks([]) == []


@pytest.mark.parametrize(
    ("second", "tau"),
    [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0), ([2, 1, 3, 4], 4 / 6), ([1, 1, 3, 4], 5 / 6), ([5, 5, 5, 5], 0.0)],
)
def test_kendall_counts_pairs(second: list[float], tau: float) -> None:
    assert kendall([10, 20, 30, 40], second) == pytest.approx(tau)


def test_one_value_is_in_order() -> None:
    assert kendall([1], [2]) == kendall([], []) == 1.0


def test_an_order_counts_where_replays_agree_on_it() -> None:
    """By mean TTFT a and b overlap; both are behind c offline, and before it live."""
    assert decided(PAIRS, attrgetter("hit")) == (3, 3)
    assert decided(PAIRS, attrgetter("ttft_mean_s")) == (2, 0)


def test_the_table_has_both_sides_and_their_places() -> None:
    text = str(table("slice", PAIRS))

    words = [line.split() for line in text.splitlines()]
    assert words[2][:9] == ["a", "0.200", "0.250", "0.250..0.250", "3/3", "2000", "1100", "1000..1200", "2/2"]
    assert words[3][:9] == ["b", "0.500", "0.500", "0.450..0.550", "2/2", "1000", "1200", "1100..1300", "1/3"]


def test_the_verdict_says_how_far_they_agree() -> None:
    assert verdict(PAIRS).splitlines() == [
        "By hit share: Kendall's tau 1.00; of 3 pairs that all replays order alike, live runs order 3 so",
        "By mean TTFT: Kendall's tau -1.00; of 2 pairs that all replays order alike, live runs order 0 so",
    ]
