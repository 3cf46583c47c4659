"""kthena's whole-number scores."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.kthena import Kthena
from tests.loadtest.rivals.hand_made import asked_tokens


@pytest.mark.parametrize(("cached", "chosen"), [(400, 1), (600, 0)])
def test_match_against_running(cached: int, chosen: int) -> None:
    """4 and 2 running score 0 and 50, as much as half of the prompt."""
    views = [View(0, l0_tokens=cached, running=4), View(1, running=2)]

    assert Kthena().select(asked_tokens(), views).view.number == chosen


def test_one_that_waits_weighs_as_much_as_100_that_run() -> None:
    """99 running cost less."""
    views = [View(0, waiting=1), View(1, running=99), View(2, running=101)]

    assert Kthena().select(asked_tokens(), views).view.number == 1


def test_only_the_first_2048_tokens_are_compared() -> None:
    """Of 100,000 tokens, 2,048 in the cache score as much as all of them: the fewer running ones win."""
    views = [View(0, l0_tokens=100_000, running=100), View(1, l0_tokens=2048, running=99)]

    assert Kthena().select(asked_tokens(100_000), views).view.number == 1


@pytest.mark.parametrize(("waiting", "chosen"), [(9, 0), (10, 1)])
def test_replicas_where_many_wait_are_left_out(waiting: int, chosen: int) -> None:
    """From 10 on, whatever their match; the other one's score is lower."""
    views = [View(0, l0_tokens=1000, waiting=waiting), View(1, waiting=9, running=99)]

    assert Kthena().select(asked_tokens(), views).view.number == chosen


def test_where_all_are_left_out_all_stay_in() -> None:
    """It answers, for the comparison's sake."""
    assert Kthena().select(asked_tokens(), [View(0, waiting=12), View(1, waiting=11)]).view.number == 1


def test_what_must_be_computed_is_less_by_the_whole_match() -> None:
    """Also beyond what is compared."""
    assert Kthena().select(asked_tokens(5000), [View(0, l0_tokens=4000)]).prefill_tokens == 1000
