"""llm-d's weighted scores."""

from __future__ import annotations

import pytest

from loadtest.rivals import View
from loadtest.rivals.llm_d import LlmD, LlmDActive
from tests.loadtest.rivals.hand_made import asked_tokens


def chosen(rival: LlmD, *views: View) -> int:
    return rival.select(asked_tokens(), views).view.number


@pytest.mark.parametrize(("cached", "number"), [(600, 1), (700, 0)])
def test_prefix_against_the_longest_queue(cached: int, number: int) -> None:
    """Of two, the longer queue scores 0 however long it is: 2 points, or two thirds of the prompt."""
    assert chosen(LlmD(), View(0, l0_tokens=cached, waiting=1), View(1)) == number


@pytest.mark.parametrize(("usage", "number"), [(0.7, 0), (0.8, 1)])
def test_prefix_against_kv_use(usage: float, number: int) -> None:
    """Half of the prompt is 1.5 points, as much as 75 % of the KV memory."""
    assert chosen(LlmD(), View(0, l0_tokens=500, kv_usage=usage), View(1)) == number


@pytest.mark.parametrize(("host_tokens", "number"), [(600, 1), (650, 0)])
def test_host_memory_counts_less(host_tokens: int, number: int) -> None:
    """0.8 * 6.5 blocks are more than 5 on a GPU; 0.8 * 6 are not."""
    assert chosen(LlmD(), View(0, l1_tokens=host_tokens), View(1, l0_tokens=500)) == number


def test_queues_are_ranked_between_the_shortest_and_the_longest() -> None:
    """Of 2, 4 and 6 waiting the middle one scores a half: 1 point, against a third of the prompt."""
    views = View(0, waiting=2), View(1, waiting=4, l0_tokens=350), View(2, waiting=6)

    assert chosen(LlmD(), *views) == 1


def test_cold_prompts_go_round() -> None:
    """Each goes to the replica whose last cold prompt is longest ago, loads being equal. Hits are no cold prompts."""
    rival = LlmD()
    views = [View(number) for number in range(3)]
    picks = [rival.select(asked_tokens(), views).view.number for _ in range(6)]
    rival.select(asked_tokens(), [View(picks[0], l0_tokens=100)])

    assert sorted(picks[:3]) == [0, 1, 2]
    assert [*picks, rival.select(asked_tokens(), views).view.number] == [*picks[:3], *picks[:3], picks[0]]


@pytest.mark.parametrize(("usage", "number"), [(0.75, 1), (0.85, 2)])
def test_who_never_had_a_cold_prompt_comes_first(usage: float, number: int) -> None:
    """1 never had one, 2 had one long ago: 2 points and 1; the other point is half of the KV memory."""
    rival = LlmD()
    for earlier in (2, 0):
        rival.select(asked_tokens(), [View(earlier)])

    assert chosen(rival, View(0, kv_usage=0.5), View(1, kv_usage=usage), View(2, kv_usage=0.3)) == number


@pytest.mark.parametrize(("usage", "number"), [(0.95, 0), (0.0, 1)])
def test_cold_prompts_do_not_ignore_load(usage: float, number: int) -> None:
    """The one that never had a cold prompt has 2 points more, and loses them by its queue; KV memory decides."""
    rival = LlmD()
    rival.select(asked_tokens(), [View(0)])

    assert chosen(rival, View(0, kv_usage=1 - usage), View(1, waiting=5, kv_usage=usage)) == number


def test_a_replica_that_left_is_forgotten() -> None:
    """One that comes with its number is new: it gets the first cold prompt."""
    rival = LlmD()
    for number in (0, 1):
        rival.select(asked_tokens(), [View(number)])
    rival.left(1)

    assert chosen(rival, View(0), View(1)) == 1


@pytest.mark.parametrize(("cached", "number"), [(300, 1), (400, 0)])
def test_the_active_variant_counts_requests(cached: int, number: int) -> None:
    """Of 2 and 1 in flight they score 0 and a half: 1 point, against a third of the prompt. Queues do not matter."""
    views = View(0, l0_tokens=cached, inflight=2), View(1, inflight=1, waiting=9)

    assert chosen(LlmDActive(), *views) == number


def test_what_must_be_computed_is_less_by_the_match() -> None:
    """1000 - 200 - 0.8 * 100."""
    assert LlmD().select(asked_tokens(), [View(0, l0_tokens=200, l1_tokens=100)]).prefill_tokens == 720


def test_a_prompt_without_a_whole_block_goes_by_load() -> None:
    """It has no blocks to match."""
    assert LlmD().select(asked_tokens(50), [View(0, waiting=3), View(1)]).view.number == 1
