"""One run of a grid: take the trace, bring it to its load, replay it, sum it up. What the next run shares is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from loadtest.replay.figures import WARMUP, Figures
from loadtest.replay.grid import Run
from loadtest.replay.load_level import at_load, bound
from loadtest.replay.run import replay
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.replay.trace import Trace
from loadtest.replay.trace_source import TraceSource

_BLOCK_TOKENS = 512


class _Asked(NamedTuple):
    """A trace at its load; ``scenario`` counts its own blocks."""

    trace: Trace
    scenario: Scenario
    bound: float  # part of the prompt tokens that could be found, of the requests that count


def make_run(run: Run) -> Figures:
    """The figures of a run, whose scenario counts blocks of 512 tokens. Raises ``ValueError`` and ``OSError`` where its
    trace cannot be read.
    """
    asked = _asked(run.source, run.cell.requests, run.scenario, run.seed)
    outcome = replay(asked.trace, asked.scenario, run.strategy, options=dict(run.options), seed=run.seed)
    return Figures.of(outcome, slo_s=run.slo_s, bound=asked.bound)


def notes_on_load(run: Run) -> tuple[str, ...]:
    """Where the requests of its cell are too few for the load. Raises as :func:`make_run` does."""
    sample = trace_source(run.source).sample(run.cell.requests, run.seed)
    if sample.is_open:
        return ()
    return at_load(replace(sample, notes=()), run.scenario, run.seed).notes


@lru_cache(maxsize=2)
def trace_source(text: str) -> TraceSource:
    """What :meth:`TraceSource.of` says, read once by each process."""
    return TraceSource.of(text)


@lru_cache(maxsize=1)
def _asked(source: str, requests: int, scenario: Scenario, seed: int) -> _Asked:
    """All strategies of a cell are asked the same."""
    sample = trace_source(source).sample(requests, seed)
    scenario = replace(scenario, engine=_in_blocks_of(scenario.engine, sample.block_tokens))
    trace = at_load(sample, scenario, seed)
    return _Asked(trace, scenario, bound(trace, warmup=WARMUP))


def _in_blocks_of(engine: EngineOptions, tokens: int) -> EngineOptions:
    """As much memory, whatever the trace's blocks are."""
    of_512 = (engine.l0_blocks, engine.l1_blocks, engine.l2_blocks)
    l0, l1, l2 = (blocks * _BLOCK_TOKENS // tokens for blocks in of_512)
    if not l0:
        raise ValueError(f"a GPU's {engine.l0_blocks} blocks of {_BLOCK_TOKENS} tokens hold none of {tokens} tokens")
    return replace(engine, l0_blocks=l0, l1_blocks=l1, l2_blocks=l2)
