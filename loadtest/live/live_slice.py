"""LiveSlice: one trace as a live run and a replay both play it. Made by one function, so that they cannot drift apart.

A trace's blocks of 512 tokens become blocks of 16, as engines have them; whatever is counted in tokens shrinks alike
(prompts, answers, prefill speed, chunks), so that a prefill takes as long as before. Answers have fewer tokens and
steps stay as long, so that decoding is over sooner. With a ``time_scale`` of 0.1 all takes a tenth of the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil

from loadtest.replay.load_level import at_load
from loadtest.replay.own_chooser import rates_of
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica import ReplicaOptions, Speeds

MODEL = "simulated"
BLOCK_TOKENS = 16
_LEAST_STEP_S = 0.005  # a shorter one is not slept precisely


@dataclass(frozen=True, slots=True)
class LiveSlice:
    """``trace`` is at its load and shrunk; ``scenario`` counts its blocks."""

    trace: Trace
    scenario: Scenario

    @classmethod
    def of(
        cls, trace: Trace, scenario: Scenario, *, seed: int, block_tokens: int = BLOCK_TOKENS, time_scale: float = 1.0
    ) -> LiveSlice:
        """``scenario`` counts blocks of the trace, its speeds are those before shrinking; ``seed``: of the arrivals.

        Raises ``ValueError`` for a scenario that has more than one gateway, tiers below the GPU, changes, no KV events
        or requests that are not streamed, and for requests that do not fit into a replica.
        """
        _check(scenario)
        shrunk = _shrunk(trace, block_tokens, time_scale)
        part = block_tokens / trace.block_tokens
        engine = replace(scenario.engine, speeds=_slowed(scenario.engine.speeds, part, time_scale))
        _check_room(shrunk, engine)
        scenario = replace(scenario, engine=engine)
        return cls(at_load(shrunk, scenario, seed), scenario)

    def replica_options(self) -> ReplicaOptions:
        """Of each live replica."""
        engine, size = self.scenario.engine, self.trace.block_tokens
        return ReplicaOptions(
            model=MODEL,
            block_size=size,
            capacity_blocks=engine.l0_blocks,
            max_model_len=engine.l0_blocks * size,
            speeds=engine.speeds,
        )

    def gateway_settings(self) -> Mapping[str, str]:
        """What a live gateway is told that a replay's knows, too: names without their prefix, in lower case."""
        rates = asdict(rates_of(self.scenario))
        del rates["calibration"]
        return {"rates": json.dumps(rates), "probe_interval_s": str(self.scenario.probe_s)}

    def target(self, replica: int, url: str) -> str:
        """A replica as a gateway's setting names it."""
        speed = self.scenario.speed(replica) if self.scenario.tells_speeds else 1.0
        return f"{replica_id(replica)}={url}?speed={speed}"


def replica_id(replica: int) -> str:
    """What a gateway calls it."""
    return f"r{replica}"


def _shrunk(trace: Trace, block_tokens: int, time_scale: float) -> Trace:
    def turn_of(turn: Turn) -> Turn:
        size, blocks = trace.block_tokens, len(turn.blocks)
        rest = max(0, turn.prompt_tokens - blocks * size) * block_tokens // size
        return Turn(
            prompt_tokens=max(1, blocks * block_tokens + min(rest, block_tokens - 1)),
            output_tokens=max(1, round(turn.output_tokens * block_tokens / size)),
            blocks=turn.blocks,
            think_s=turn.think_s * time_scale,
        )

    def session_of(session: Session) -> Session:
        return session._replace(turns=[turn_of(turn) for turn in session.turns])

    return replace(trace, block_tokens=block_tokens, sessions=[session_of(session) for session in trace.sessions])


def _slowed(speeds: Speeds, part: float, time_scale: float) -> Speeds:
    """``part``: of a token that is left of one."""
    return replace(
        speeds,
        prefill_tokens_per_s=speeds.prefill_tokens_per_s * part / time_scale,
        attention_tokens=speeds.attention_tokens * part,
        step_s=max(_LEAST_STEP_S, speeds.step_s * time_scale),
        sequence_s=speeds.sequence_s * time_scale,
        context_token_s=speeds.context_token_s / part * time_scale,
        chunk_tokens=max(1, round(speeds.chunk_tokens * part)),
    )


def _check(scenario: Scenario) -> None:
    if scenario.gateways != 1 or scenario.changes or scenario.streamed < 1:
        raise ValueError("live runs have one gateway and a fleet that stays as it is, and all answers are streamed")
    if not scenario.publishes:
        raise ValueError("replicas of live runs publish KV events")
    if scenario.engine.l1_blocks or scenario.engine.l2_blocks:
        raise ValueError("live runs have no memory below the GPU's")


def _check_room(trace: Trace, engine: EngineOptions) -> None:
    for session in trace.sessions:
        for turn in session.turns:
            blocks = ceil((turn.prompt_tokens + turn.output_tokens) / trace.block_tokens)
            if blocks > engine.l0_blocks:
                raise ValueError(f"a request needs {blocks} blocks, and a replica has {engine.l0_blocks}")
