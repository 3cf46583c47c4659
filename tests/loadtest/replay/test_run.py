"""A trace through strategies and a simulated fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.replay.outcome import Outcome
from loadtest.replay.run import replay
from loadtest.replay.scenario import Change, EngineOptions, Scenario
from loadtest.replay.trace import Trace
from router_strategies import available
from tests.loadtest.replay.examples import BLOCK, dialogue, open_trace, turn

SMALL = Scenario(replicas=3, engine=EngineOptions(l0_blocks=200))
FAMILIES = open_trace([turn(3000 + 40 * number, family=number % 4) for number in range(60)])


def without_real_time(outcome: Outcome) -> Outcome:
    return replace(outcome, decide_s=0.0)


def hit_share(outcome: Outcome) -> float:
    return sum(row.l0_tokens for row in outcome.served) / sum(row.prompt_tokens for row in outcome.served)


@pytest.mark.parametrize("strategy", available())
def test_every_request_is_served_once_and_a_second_run_is_the_same(strategy: str) -> None:
    first, second = (replay(FAMILIES, SMALL, strategy, seed=3) for _ in range(2))
    assert [row.prompt_tokens for row in first.served] == [s.turns[0].prompt_tokens for s in FAMILIES.sessions]
    assert (first.errors, first.decisions) == (0, 60)
    assert without_real_time(first) == without_real_time(second)
    assert all(row.arrived_s < row.first_token_s < row.finished_s for row in first.served)


def test_a_prefix_stays_where_it_is_known() -> None:
    assert (
        hit_share(replay(FAMILIES, SMALL, "kv_aware", seed=1)) > hit_share(replay(FAMILIES, SMALL, "round_robin")) + 0.1
    )


def test_turns_follow_each_others_answers() -> None:
    session = dialogue([turn(2000), turn(3000, think_s=5.0), turn(4000, think_s=1.0)])
    served = replay(Trace("talk", BLOCK, [session]), SMALL, "kv_aware").served
    assert served[1].arrived_s == pytest.approx(served[0].finished_s + 5.0)
    assert served[2].arrived_s == pytest.approx(served[1].finished_s + 1.0)
    assert served[2].l0_tokens == 3000 // BLOCK * BLOCK


def test_events_that_come_late_are_made_up_for_by_what_was_sent() -> None:
    burst = open_trace([turn(6000) for _ in range(6)], gap_s=0.01)
    served = replay(burst, replace(SMALL, event_delay_s=100.0), "kv_aware", seed=1).served
    assert len({row.replica for row in served}) == 1


def test_without_events_strategies_go_by_what_was_sent() -> None:
    blind = replace(SMALL, publishes=False)
    assert hit_share(replay(FAMILIES, blind, "prefix_aware", seed=1)) > 0.8


def test_of_several_gateways_each_knows_its_own_part_and_what_reports_show() -> None:
    crowd = open_trace([turn(8000, 200, family=number) for number in range(60)], gap_s=0.5)

    def ttft_s(gateways: int, probe_s: float) -> float:
        served = replay(crowd, replace(SMALL, gateways=gateways, probe_s=probe_s), "least_loaded", seed=1).served
        return sum(row.ttft_s for row in served)

    alone, blind, sighted = ttft_s(1, 60.0), ttft_s(4, 60.0), ttft_s(4, 1.0)
    assert blind > 1.1 * alone
    assert alone < sighted < 1.05 * alone


def test_an_answer_that_is_no_stream_tells_its_first_token_with_its_last() -> None:
    served = replay(FAMILIES, replace(SMALL, streamed=0.0), "kv_aware", seed=1).served
    assert len(served) == 60
    assert all(row.first_token_s < row.finished_s for row in served)


def test_who_joins_gets_requests_and_who_left_gets_none() -> None:
    changes = (Change(0.5, 2, joins=True), Change(0.5, 0, joins=False))
    served = replay(FAMILIES, replace(SMALL, changes=changes), "round_robin").served
    middle_s = FAMILIES.sessions[-1].begins_s / 2
    assert {row.replica for row in served if row.arrived_s < middle_s} == {0, 1}
    assert {row.replica for row in served if row.arrived_s > middle_s} == {1, 2}


def test_a_fleet_without_replicas_is_an_error_and_not_the_end() -> None:
    changes = tuple(Change(0.5, number, joins=False) for number in range(3))
    outcome = replay(FAMILIES, replace(SMALL, changes=changes), "kv_aware")
    assert outcome.errors == 30
    assert len(outcome.served) == 30


def test_an_unequal_fleet_takes_its_time() -> None:
    slow = replace(SMALL, speeds=(0.25, 0.25, 0.25))
    quick = replay(FAMILIES, SMALL, "round_robin").served[0]
    assert replay(FAMILIES, slow, "round_robin").served[0].ttft_s == pytest.approx(4 * quick.ttft_s)


def test_queues_are_looked_at_all_along() -> None:
    outcome = replay(FAMILIES, SMALL, "round_robin")
    assert len(outcome.queues) == 200
    assert all(len(sample.tokens) == 3 for sample in outcome.queues)


def test_an_unknown_strategy_or_option_is_named() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        replay(FAMILIES, SMALL, "nonsense")
    with pytest.raises(ValueError, match="no rival is named 'nonsense'"):
        replay(FAMILIES, SMALL, "rival:nonsense")
    with pytest.raises(ValueError, match="frobnicate"):
        replay(FAMILIES, SMALL, "kv_aware", options={"frobnicate": 1})
