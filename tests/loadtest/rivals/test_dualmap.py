"""DualMap, with round rates: 1,000 tokens a second, no attention, no step time."""

from __future__ import annotations

import pytest

from loadtest.replica.scheduler import Speeds
from loadtest.rivals import View
from loadtest.rivals._prefill import PrefillTimes
from loadtest.rivals.dualmap import DualMap
from tests.loadtest.rivals.hand_made import asked, asked_tokens

ROUND = PrefillTimes(Speeds(prefill_tokens_per_s=1000.0, attention_tokens=1e12, step_s=0.0))


def test_a_prefix_has_two_replicas() -> None:
    """Which of them is left to chance where nothing tells them apart; other prefixes have others."""
    rival = DualMap(times=ROUND)
    views = [View(number) for number in range(16)]
    found: list[set[int]] = [set() for _ in range(40)]
    for at in range(20):
        for prefix, numbers in enumerate(found):
            numbers.add(rival.select(asked_tokens(first_block=100 * prefix, now=float(at)), views).view.number)

    assert {len(numbers) for numbers in found} == {2}
    assert set().union(*found) == set(range(16))


def test_every_gateway_knows_the_same_two() -> None:
    """Gateways differ in how ties fall, and in nothing else."""
    views = [View(number) for number in range(16)]
    rivals = [DualMap(times=ROUND, seed=seed) for seed in range(20)]

    assert len({rival.select(asked_tokens(first_block=7), views).view.number for rival in rivals}) == 2


@pytest.mark.parametrize(("queue_tokens", "keeps"), [(1500, True), (1700, False)])
def test_affinity_holds_within_the_slo(queue_tokens: int, keeps: bool) -> None:
    """The holder needs 0.4 s and its queue; 2 s is the limit; the other one needs 1 s."""
    rival = DualMap(times=ROUND)
    two = [View(0), View(1)]
    holder = rival.select(asked_tokens(queue_tokens), two).view.number
    warm = [View(number, l0_tokens=600 * (number == holder), pending=int(number == holder)) for number in (0, 1)]

    assert (rival.select(asked_tokens(), warm).view.number == holder) is keeps


def test_what_all_begin_with_does_not_follow_one_key() -> None:
    """Prompts that begin with the same block are told apart by the next one as soon as that block is hot."""
    rival = DualMap(times=ROUND)
    views = [View(number) for number in range(16)]
    for number in range(1, 400):
        rival.select(asked([0, number], number=number, now=float(number)), views)
    late = [
        rival.select(asked([0, number], number=number, now=float(number)), views).view.number
        for number in range(400, 600)
    ]

    assert set(late) == set(range(16))


def test_a_prompt_without_a_whole_block_goes_anywhere() -> None:
    """It has a key of its own."""
    views = [View(number) for number in range(4)]
    rival = DualMap(times=ROUND)

    assert {rival.select(asked_tokens(50, number=number), views).view.number for number in range(100)} == {0, 1, 2, 3}


def test_one_replica_is_both() -> None:
    """And gets everything."""
    view, tokens = DualMap(times=ROUND).select(asked_tokens(), [View(0, l0_tokens=300)])

    assert (view.number, tokens) == (0, 700)


def test_a_replica_that_left_is_forgotten() -> None:
    """What was promised there, too: one that comes with its number keeps its prefix."""
    rival = DualMap(times=ROUND)
    rival.select(asked_tokens(9000), [View(0)])
    rival.left(0)

    assert rival.select(asked_tokens(), [View(0, l0_tokens=300, pending=1), View(1)]).view.number == 0
