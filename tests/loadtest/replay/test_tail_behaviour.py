"""What strategies do at the edges, through the project's own router and simulated replicas: nobody gets all or nothing.

A prompt is some blocks that it shares and some of its own; an engine computes 12,000 tokens a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from statistics import fmean

import pytest

from loadtest.replay.outcome import Outcome, Served
from loadtest.replay.run import replay
from loadtest.replay.scenario import Change, Scenario
from loadtest.replay.trace import Session, Trace, Turn

BLOCK = 512
KNOW_LOAD = ("kv_aware", "least_loaded", "prefix_aware", "session")
KNOW_PREFIXES = ("kv_aware", "prefix_aware")


class Prompts:
    """Makes turns of shared and of new blocks; no two prompts share more than is asked for."""

    def __init__(self) -> None:
        self._ids: Iterator[int] = count()

    def blocks(self, number: int) -> list[int]:
        return [next(self._ids) for _ in range(number)]

    def turn(self, shared: Sequence[int] = (), new: int = 0, rest: int = 100, output: int = 20) -> Turn:
        """``new``: blocks; ``rest`` and ``output``: tokens."""
        blocks = [*shared, *self.blocks(new)]
        return Turn(len(blocks) * BLOCK + rest, output, blocks)


def _trace(turns: Sequence[tuple[float, Turn]], sessions: int = 0) -> Trace:
    """Each at its moment, in seconds; of as many sessions in turn, or each without one."""
    timed = sorted(turns, key=lambda timed: timed[0])
    names = [f"session {number % sessions}" if sessions else "" for number in range(len(timed))]
    return Trace("tail", BLOCK, [Session(name, at_s, [turn]) for name, (at_s, turn) in zip(names, timed, strict=True)])


def _steady(turns: Sequence[Turn], rate: float, seed: int = 1) -> list[tuple[float, Turn]]:
    """They come at random, so many a second."""
    random, now = Random(seed), 0.0
    return [(now := now + random.expovariate(rate), turn) for turn in turns]


def _replicas(served: Sequence[Served]) -> Counter[int]:
    return Counter(one.replica for one in served)


def _mean_ttft(outcome: Outcome) -> float:
    return fmean(one.ttft_s for one in outcome.served)


def _hit(served: Sequence[Served]) -> float:
    return sum(one.l0_tokens for one in served) / sum(one.prompt_tokens for one in served)


@pytest.mark.parametrize("strategy", ["round_robin", *KNOW_LOAD])
@pytest.mark.parametrize("gap_s", [1.0, 0.001], ids=["one by one", "at once"])
@pytest.mark.parametrize("gateways", [1, 2])
def test_prompts_below_one_block_spread(strategy: str, gap_s: float, gateways: int) -> None:
    """Nothing of them can be held anywhere: 400 make 60 to 140 at each of four, whoever decides."""
    trace = _trace([(number * gap_s, Turn(200, 2, [])) for number in range(400)])
    outcome = replay(trace, Scenario(replicas=4, gateways=gateways), strategy, seed=3)
    counts = _replicas(outcome.served)

    assert all(60 <= counts[number] <= 140 for number in range(4)), counts


@pytest.mark.parametrize("strategy", KNOW_LOAD)
def test_ties_fall_otherwise_with_another_seed(strategy: str) -> None:
    """As in another gateway, or after a restart: they do not all begin with the same replica."""
    trace = _trace([(float(number), Turn(200, 2, [])) for number in range(40)])
    orders = {tuple(one.replica for one in replay(trace, Scenario(), strategy, seed=seed).served) for seed in range(3)}
    firsts = {replay(trace.first(1), Scenario(), strategy, seed=seed).served[0].replica for seed in range(20)}

    assert len(orders) == 3
    assert len(firsts) >= 4


@pytest.mark.parametrize("strategy", ["round_robin", *KNOW_LOAD])
def test_every_replica_gets_its_part_of_unlike_requests(strategy: str) -> None:
    """Independent prompts, many at a time, one session each: none of five gets less than a tenth."""
    prompts = Prompts()
    turns = _steady([prompts.turn(new=2, output=200) for _ in range(500)], rate=30)
    outcome = replay(_trace(turns, sessions=500), Scenario(replicas=5), strategy)

    assert min(_replicas(outcome.served)[number] for number in range(5)) > 50


@pytest.mark.parametrize("strategy", KNOW_LOAD)
@pytest.mark.parametrize("publishes", [True, False])
def test_a_cold_replica_is_warmed_up_without_a_stampede(strategy: str, publishes: bool) -> None:
    """A fifth one joins a busy fleet: within 10 s it gets at least half of its share, and never twice its share."""
    prompts, random = Prompts(), Random(2)
    system = [prompts.blocks(1) for _ in range(20)]
    turns = _steady([prompts.turn(random.choice(system), new=4, output=100) for _ in range(1_000)], rate=17)
    scenario = Scenario(replicas=5, publishes=publishes, changes=(Change(0.5, 4, joins=True),))
    outcome = replay(_trace(turns, sessions=300), scenario, strategy)
    joined_s = turns[0][0] + 0.5 * (turns[-1][0] - turns[0][0])
    windows = [
        [one for one in outcome.served if joined_s + start <= one.arrived_s < joined_s + start + 5]
        for start in range(0, 25, 5)
    ]
    shares = [_replicas(window)[4] / len(window) for window in windows]
    first_ten = [one for window in windows[:2] for one in window]

    assert _replicas(first_ten)[4] / len(first_ten) > 0.1
    assert max(shares) < 0.4, shares


@pytest.mark.parametrize("strategy", KNOW_LOAD)
def test_a_huge_prompt_blocks_no_small_ones(strategy: str) -> None:
    """One of 100,000 tokens keeps its replica busy for 20 s: small ones go past it, also those at home there."""
    prompts = Prompts()
    small = [(0.5 + number * 0.05, prompts.turn(new=1, output=5)) for number in range(300)]
    outcome = replay(_trace([(0.0, prompts.turn(new=195)), *small], sessions=40), Scenario(replicas=4), strategy)
    huge, *others = outcome.served

    assert huge.ttft_s > 15
    assert sum(one.ttft_s > 1 for one in others) <= 3


@pytest.mark.parametrize("strategy", KNOW_PREFIXES)
@pytest.mark.parametrize("publishes", [True, False])
def test_a_burst_of_one_new_prefix_stays_together(strategy: str, publishes: bool) -> None:
    """Five at once compute its 12,000 tokens once, though seven replicas are idle."""
    prompts = Prompts()
    shared = prompts.blocks(24)
    burst = [(number * 0.01, prompts.turn(shared, new=0)) for number in range(5)]
    outcome = replay(_trace(burst), Scenario(replicas=8, publishes=publishes), strategy)

    assert len(_replicas(outcome.served)) == 1
    assert _hit(outcome.served) > 0.7


@pytest.mark.parametrize("strategy", KNOW_PREFIXES)
@pytest.mark.parametrize("publishes", [True, False])
def test_a_burst_is_divided_when_that_is_cheaper(strategy: str, publishes: bool) -> None:
    """A hundred at once, each with 2,000 tokens of its own: several replicas compute the prefix, not one does it all,
    and it takes hardly longer than where all do.
    """
    prompts = Prompts()
    shared = prompts.blocks(24)
    burst = [(number * 0.01, prompts.turn(shared, new=4)) for number in range(100)]
    scenario = Scenario(replicas=8, publishes=publishes)
    outcome, balanced = (replay(_trace(burst), scenario, name) for name in (strategy, "least_loaded"))

    assert len(_replicas(outcome.served)) >= 4
    assert _mean_ttft(outcome) < 1.1 * _mean_ttft(balanced)


@pytest.mark.parametrize("strategy", ["kv_aware", "prefix_aware", "session"])
@pytest.mark.parametrize("streamed", [1.0, 0.0], ids=["streamed", "plain"])
@pytest.mark.parametrize("publishes", [True, False])
def test_saturated_it_is_about_as_good_as_the_least_loaded(strategy: str, streamed: float, publishes: bool) -> None:
    """Half as much again as the fleet can do: the wait is at most 1.2 times as long, and nothing fails."""
    prompts, random = Prompts(), Random(4)
    system = [prompts.blocks(2) for _ in range(10)]
    asked = [prompts.turn(random.choice(system), new=random.choice((2, 4, 20)), output=150) for _ in range(300)]
    scenario = Scenario(replicas=4, streamed=streamed, publishes=publishes)
    turns = _steady(asked, rate=1.5 * 4 * 12_000 / fmean(turn.prompt_tokens for turn in asked))
    trace = _trace(turns, sessions=100)
    outcome, balanced = (replay(trace, scenario, name) for name in (strategy, "least_loaded"))

    assert outcome.errors == 0
    assert len(outcome.served) == 300
    assert _mean_ttft(outcome) < 1.2 * _mean_ttft(balanced)


@pytest.mark.parametrize("strategy", KNOW_PREFIXES)
@pytest.mark.parametrize("publishes", [True, False])
def test_a_system_prompt_of_all_gathers_nowhere(strategy: str, publishes: bool) -> None:
    """500 requests with one system prompt of 2,048 tokens: replicas of half the speed, too, and it is found again."""
    prompts = Prompts()
    system = prompts.blocks(4)
    turns = _steady([prompts.turn(system, new=1, output=300) for _ in range(500)], rate=25)
    scenario = Scenario(replicas=8, speeds=(0.5,) * 8, publishes=publishes)
    served = replay(_trace(turns), scenario, strategy).served
    counts = _replicas(served)

    assert max(counts.values()) < 1.5 * 500 / 8, counts
    assert _hit(served) > 0.9 * 2048 / (2560 + 100)


@pytest.mark.parametrize("strategy", KNOW_PREFIXES)
@pytest.mark.parametrize("publishes", [True, False])
def test_one_overloaded_replica_takes_no_affinity_from_the_others(strategy: str, publishes: bool) -> None:
    """Huge prompts fill one of four; the others' documents are found as often as without them."""
    prompts, random = Prompts(), Random(5)
    documents = [prompts.blocks(16) for _ in range(12)]
    asked = _steady([prompts.turn(random.choice(documents), output=10) for _ in range(400)], rate=10)
    huge = [(12.0 + number, prompts.turn(new=150)) for number in range(2)]
    scenario = Scenario(replicas=4, publishes=publishes)
    undisturbed = replay(_trace(asked), scenario, strategy).served
    disturbed = [
        one for one in replay(_trace([*asked, *huge]), scenario, strategy).served if one.prompt_tokens < 10_000
    ]

    assert _hit(disturbed) > 0.95 * _hit(undisturbed)
    assert fmean(one.ttft_s for one in disturbed) < 2 * fmean(one.ttft_s for one in undisturbed)


@pytest.mark.parametrize("strategy", KNOW_PREFIXES)
def test_a_prompt_that_matched_nothing_is_remembered_where_it_went(strategy: str) -> None:
    """Without events, too, and also where only its load decided: its next turn finds it."""
    prompts = Prompts()
    alone = prompts.blocks(1)
    turns = [(float(number), prompts.turn(alone, new=0)) for number in range(6)]
    served = replay(_trace(turns), Scenario(publishes=False), strategy).served

    assert len(_replicas(served)) == 1
    assert [one.l0_tokens for one in served[1:]] == [BLOCK] * 5


@pytest.mark.parametrize("strategy", ["session"])
def test_sessions_find_their_prompts_and_move_only_if_they_must(strategy: str) -> None:
    """Chats whose prompts grow: nearly all of them stay where they began, also when another replica joins."""
    prompts, turns = Prompts(), []
    for chat in range(40):
        blocks = prompts.blocks(2)
        for number in range(10):
            blocks = [*blocks, *prompts.blocks(1)]
            turns.append((chat * 0.3 + number * 6.0, f"chat {chat}", Turn(len(blocks) * BLOCK + 50, 40, blocks)))
    sessions = [Session(name, at_s, [turn]) for at_s, name, turn in sorted(turns)]
    scenario = Scenario(replicas=5, changes=(Change(0.5, 4, joins=True),))
    served = replay(Trace("chats", BLOCK, sessions), scenario, strategy).served
    homes: dict[str, set[int]] = {}
    for session, one in zip(sessions, served, strict=True):
        homes.setdefault(session.key, set()).add(one.replica)
    moved = [replicas for replicas in homes.values() if len(replicas) > 1]

    assert len(moved) < 16  # a fifth of them, and chance
    assert all(4 in replicas for replicas in moved)
    assert _hit(served) > 0.7
