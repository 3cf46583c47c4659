"""Mooncake's conductor, with round rates: 1,000 tokens a second, no attention, no step time."""

from __future__ import annotations

import pytest

from loadtest.replica.scheduler import Speeds
from loadtest.rivals import View
from loadtest.rivals._prefill import PrefillTimes
from loadtest.rivals.mooncake import MooncakeConductor
from tests.loadtest.rivals.hand_made import asked_tokens

ROUND = PrefillTimes(Speeds(prefill_tokens_per_s=1000.0, attention_tokens=1e12, step_s=0.0), 10_000.0, 5_000.0)


@pytest.mark.parametrize(("at_s", "chosen"), [(1.9, 1), (2.1, 0)])
def test_a_match_is_worth_the_seconds_it_saves(at_s: float, chosen: int) -> None:
    """0.4 s after what is left of 2.5 s, against 1 s: from 1.9 s on it waits for the match."""
    rival = MooncakeConductor(times=ROUND)
    rival.select(asked_tokens(2500), [View(0)])
    views = [View(0, l0_tokens=600, pending=1, pending_tokens=2500), View(1)]

    assert rival.select(asked_tokens(now=at_s), views).view.number == chosen


def test_a_queue_is_done_when_its_requests_have_their_first_token() -> None:
    """However long they were expected to take."""
    rival = MooncakeConductor(times=ROUND)
    rival.select(asked_tokens(100_000), [View(0)])

    assert rival.select(asked_tokens(now=1.0), [View(0, l0_tokens=100), View(1)]).view.number == 0


def test_loads_from_lower_tiers_cost_their_time() -> None:
    """500 tokens from host memory are 0.05 s, from storage 0.1 s; 450 on the GPU leave 0.05 s more to compute."""
    rival = MooncakeConductor(times=ROUND)
    views = [View(0, l2_tokens=500), View(1, l1_tokens=500), View(2, l0_tokens=440)]

    assert rival.select(asked_tokens(), views).view.number == 1
    assert rival.select(asked_tokens(), [View(0, l2_tokens=500, pending=0), View(2, l0_tokens=440)]).view.number == 2


@pytest.mark.parametrize(("own_tokens", "chosen"), [(401, 0), (400, 1)])
def test_with_transfers_the_longest_prefix_counts_for_all(own_tokens: int, chosen: int) -> None:
    """From twice its own length on: 0.24 s to fetch and compute, not 0.599 s; the holder has 0.2 s, after 0.3 s."""
    rival = MooncakeConductor(times=ROUND, transfer_tokens_s=10_000.0)
    rival.select(asked_tokens(300, first_block=50), [View(0)])
    views = [View(0, l0_tokens=800, pending=1), View(1, l0_tokens=own_tokens)]

    assert rival.select(asked_tokens(), views).view.number == chosen


def test_a_replica_that_left_is_forgotten() -> None:
    """What was promised there, too."""
    rival = MooncakeConductor(times=ROUND)
    rival.select(asked_tokens(5000), [View(0)])
    rival.left(0)

    assert rival.select(asked_tokens(), [View(0, l0_tokens=100, pending=1), View(1)]).view.number == 0
