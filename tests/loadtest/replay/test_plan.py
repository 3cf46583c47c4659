"""From arguments to runs."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.arguments import add_replay_arguments
from loadtest.replay.plan import baseline_of, in_words, planned_runs, scenario_of
from loadtest.replay.scenario import Change, EngineOptions, Scenario


def read(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_replay_arguments(parser)
    return parser.parse_args(words)


def test_a_run_for_each_trace_fleet_load_seed_and_strategy() -> None:
    """Strategies of one cell and seed follow each other: they share what they are asked."""
    arguments = read("--trace", "conversation,mixed", "--replicas", "4,16", "--strategy", "kv_aware,round_robin")
    runs = planned_runs(arguments)

    assert len(set(runs)) == len(runs) == 2 * 2 * 1 * 3 * 2
    assert [run.label for run in runs[:2]] == ["kv_aware", "round_robin"]
    assert len({(run.cell, run.seed) for run in runs[:2]}) == 1
    assert {run.cell.requests for run in runs if run.cell.replicas == 4} == {2000}
    assert {run.cell.requests for run in runs if run.cell.replicas == 16} == {4000}


def test_a_file_is_named_by_its_stem_and_no_two_alike() -> None:
    runs = planned_runs(read("--trace", "last/week.jsonl", "--strategy", "kv_aware"))

    assert {(run.cell.trace, run.source) for run in runs} == {("week", "last/week.jsonl")}
    with pytest.raises(ValueError, match=r"a/week\.jsonl and b/week\.jsonl would both be named week"):
        planned_runs(read("--trace", "a/week.jsonl,b/week.jsonl"))


def test_the_scenario_that_is_asked_for() -> None:
    """The first replicas are slow, the last ones join, those before them leave."""
    words = "--slow 2x0.6 --join 1@0.5 --leave 1@0.7 --untold --no-events --event-delay-ms 1000 --gateways 3"
    more = "--blocks 100 --l1-blocks 50 --l2-blocks 500 --l2-estimate --streamed 0.5 --rate-error 2 --probe-s 0.5"
    scenario = scenario_of(read(*words.split(), *more.split()), 8, 0.7)

    assert scenario == Scenario(
        replicas=8,
        engine=EngineOptions(l0_blocks=100, l1_blocks=50, l2_blocks=500),
        load=0.7,
        event_delay_s=1.0,
        probe_s=0.5,
        streamed=0.5,
        gateways=3,
        rate_error=2.0,
        speeds=(0.6, 0.6),
        tells_speeds=False,
        publishes=False,
        estimates_l2=True,
        changes=(Change(0.5, 7, True), Change(0.7, 6, False)),
    )


@pytest.mark.parametrize("words", [["--slow", "9x0.6"], ["--join", "4@0.5", "--leave", "4@0.7"]])
def test_a_fleet_that_is_too_small_is_told(words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"of 8|has 8"):
        scenario_of(read(*words), 8, 0.6)


def test_the_usual_needs_no_words_and_the_rest_has_some() -> None:
    assert in_words(Scenario(replicas=64, load=0.9)) == ""
    assert in_words(Scenario(gateways=3, speeds=(0.6, 0.6))) == "3 gateways; speeds 0.6/0.6"
    assert in_words(Scenario(), slo_s=1.0) == "SLO 1 s"


_SCENARIOS = st.builds(
    Scenario,
    engine=st.builds(EngineOptions, st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)),
    event_delay_s=st.sampled_from([0.03, 0.3]),
    probe_s=st.sampled_from([2.0, 0.5]),
    streamed=st.sampled_from([1.0, 0.5]),
    gateways=st.integers(1, 3),
    rate_error=st.sampled_from([1.0, 2.0]),
    speeds=st.sampled_from([(), (0.6,), (0.6, 0.6)]),
    tells_speeds=st.booleans(),
    publishes=st.booleans(),
    estimates_l2=st.booleans(),
    changes=st.sampled_from([(), (Change(0.5, 7, True),), (Change(0.5, 7, False),)]),
)


_FIELDS = [field.name for field in fields(Scenario) if field.name not in ("replicas", "load")]


@given(_SCENARIOS, _SCENARIOS, st.sampled_from(_FIELDS))
def test_unlike_scenarios_have_unlike_words(one: Scenario, another: Scenario, field: str) -> None:
    """Runs of the one never pass for runs of the other, in whatever they differ."""
    other = replace(one, **{field: getattr(another, field)})
    assert (in_words(one) == in_words(other)) == (one == other)
    assert in_words(one) == in_words(replace(one, replicas=64, load=0.1))


def test_the_baseline_is_kv_aware_where_it_is_compared() -> None:
    """Whatever its options; else the first one, or the one that is named."""
    assert baseline_of(read()) == "kv_aware"
    assert baseline_of(read("--option", "kv_aware.cached_weight=4")) == "kv_aware@cached_weight=4"
    assert baseline_of(read("--strategy", "round_robin,least_loaded")) == "round_robin"
    assert baseline_of(read("--baseline", "round_robin")) == "round_robin"
    with pytest.raises(ValueError, match="--baseline kv_aware is not compared; round_robin are"):
        baseline_of(read("--strategy", "round_robin", "--baseline", "kv_aware"))
