"""One trace as a live run and a replay both play it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.settings import Settings
from loadtest.live.live_slice import LiveSlice, replica_id
from loadtest.replay.scenario import Change, EngineOptions, Scenario
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica import Speeds

SCENARIO = Scenario(replicas=2, engine=EngineOptions(l0_blocks=40))
TURNS = (Turn(512 * 8 + 300, 640, range(8)), Turn(512 * 12, 1, range(12), 10.0), Turn(5, 5, ()))
TRACE = Trace("t", 512, [Session("a", 0.0, TURNS), Session("b", 4.0, TURNS[:1])])


def test_shrinks_tokens_and_keeps_blocks() -> None:
    """A block of 512 is one of 16, what is over shrinks alike, and nothing has less than a token."""
    live = LiveSlice.of(TRACE, SCENARIO, seed=1)

    turns = max((session.turns for session in live.trace.sessions), key=len)
    assert live.trace.block_tokens == 16
    assert [turn.prompt_tokens for turn in turns] == [8 * 16 + 9, 12 * 16, 1]
    assert [turn.output_tokens for turn in turns] == [20, 1, 1]
    assert [list(turn.blocks) for turn in turns] == [list(turn.blocks) for turn in TURNS]
    assert {session.key for session in live.trace.sessions} == {"a", "b"}
    assert live.scenario.engine.l0_blocks == 40


@pytest.mark.parametrize("time_scale", [1.0, 0.5, 4.0])
def test_a_prefill_takes_as_long_as_before_it_shrank(time_scale: float) -> None:
    live = LiveSlice.of(TRACE, SCENARIO, seed=1, time_scale=time_scale)

    before, after = Speeds(), live.scenario.engine.speeds
    assert after.prefill_s(64, 320) == pytest.approx(time_scale * before.prefill_s(64 * 32, 320 * 32))
    assert after.step_s == pytest.approx(time_scale * before.step_s)
    assert after.context_token_s * 10 == pytest.approx(time_scale * before.context_token_s * 320)
    assert after.chunk_tokens * 32 == before.chunk_tokens


def test_times_scale_but_no_step_gets_too_short_to_be_slept() -> None:
    usual, short = (LiveSlice.of(TRACE, SCENARIO, seed=1, time_scale=scale) for scale in (1.0, 0.01))

    assert short.scenario.engine.speeds.step_s == 0.005
    assert max(turn.think_s for session in short.trace.sessions for turn in session.turns) == pytest.approx(0.1)
    assert short.trace.sessions[-1].begins_s < 0.1 * usual.trace.sessions[-1].begins_s


def test_replicas_and_the_replays_engines_are_the_same() -> None:
    live = LiveSlice.of(TRACE, SCENARIO, seed=1)

    options = live.replica_options()
    assert options.speeds == live.scenario.engine.speeds
    assert (options.block_size, options.capacity_blocks) == (16, 40)
    assert options.context_limit == 40 * 16


def test_a_gateway_is_told_what_the_replays_knows() -> None:
    """Settings that a gateway takes, and each replica's name and speed."""
    live = LiveSlice.of(TRACE, replace(SCENARIO, rate_error=2.0, speeds=(1.0, 0.5), probe_s=3.0), seed=1)

    told = live.gateway_settings()
    settings = Settings.from_env({f"PREFIXWAY_{name.upper()}": value for name, value in told.items()})
    assert settings.rates["prefill_tokens_s"] == 2 * live.scenario.engine.speeds.prefill_tokens_per_s
    assert json.loads(told["rates"])["step_s"] == live.scenario.engine.speeds.step_s
    assert settings.probe_interval_s == 3.0
    assert live.target(1, "http://h:1") == f"{replica_id(1)}=http://h:1?speed=0.5"


def test_a_gateway_that_is_not_told_speeds_is_not() -> None:
    live = LiveSlice.of(TRACE, replace(SCENARIO, speeds=(0.5,), tells_speeds=False), seed=1)

    assert live.target(0, "http://h:1").endswith("?speed=1.0")


@pytest.mark.parametrize(
    "scenario",
    [
        replace(SCENARIO, gateways=2),
        replace(SCENARIO, streamed=0.5),
        replace(SCENARIO, publishes=False),
        replace(SCENARIO, changes=(Change(0.5, 1, joins=False),)),
        replace(SCENARIO, engine=EngineOptions(l1_blocks=5)),
        replace(SCENARIO, engine=EngineOptions(l2_blocks=5)),
        replace(SCENARIO, engine=EngineOptions(l0_blocks=12)),
    ],
)
def test_refuses_what_is_not_played_live(scenario: Scenario) -> None:
    """And requests that a replica has no room for: twelve full blocks, and the answer."""
    with pytest.raises(ValueError, match=r"live runs|blocks"):
        LiveSlice.of(TRACE, scenario, seed=1)
