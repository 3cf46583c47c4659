"""Plan: which runs a command line asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loadtest.replay import generator
from loadtest.replay.arguments import Part
from loadtest.replay.contender import contenders
from loadtest.replay.figures import SLO_S
from loadtest.replay.grid import Run
from loadtest.replay.measured import Cell
from loadtest.replay.scenario import Change, EngineOptions, Scenario

_REQUESTS_A_REPLICA = 250
_LEAST_REQUESTS = 2000
_BASELINE = "kv_aware"


def planned_runs(arguments: argparse.Namespace) -> list[Run]:
    """All of them; those that share a trace at a load follow each other. Raises ``ValueError``."""
    compared = contenders(arguments.strategy, arguments.option)
    sources = _sources(arguments.trace)
    return [
        Run(
            _cell(arguments, trace, scenario), one.label, seed, source, scenario, one.name, one.options, arguments.slo_s
        )
        for trace, source in sources.items()
        for replicas in arguments.replicas
        for load in arguments.load
        for scenario in [scenario_of(arguments, replicas, load)]
        for seed in range(1, arguments.seeds + 1)
        for one in compared
    ]


def baseline_of(arguments: argparse.Namespace) -> str:
    """The label of the strategy that all are compared to. Raises ``ValueError`` where it is not compared."""
    compared = contenders(arguments.strategy, arguments.option)
    wanted = arguments.baseline or _BASELINE
    matching = [one.label for one in compared if wanted in (one.label, one.name)]
    if arguments.baseline and not matching:
        labels = ", ".join(one.label for one in compared)
        raise ValueError(f"--baseline {arguments.baseline} is not compared; {labels} are")
    return (matching or [compared[0].label])[0]


def scenario_of(arguments: argparse.Namespace, replicas: int, load: float) -> Scenario:
    """The fleet, and what its gateways know. Raises ``ValueError`` where there are too few replicas for it."""
    slow = [part.number for part in arguments.slow for _ in range(part.replicas)]
    if len(slow) > replicas:
        raise ValueError(f"--slow speaks of {len(slow)} replicas; --replicas has {replicas}")
    return Scenario(
        replicas=replicas,
        engine=EngineOptions(l0_blocks=arguments.blocks, l1_blocks=arguments.l1_blocks, l2_blocks=arguments.l2_blocks),
        load=load,
        event_delay_s=arguments.event_delay_ms / 1000,
        probe_s=arguments.probe_s,
        streamed=arguments.streamed,
        gateways=arguments.gateways,
        rate_error=arguments.rate_error,
        speeds=tuple(slow),
        tells_speeds=not arguments.untold,
        publishes=not arguments.no_events,
        estimates_l2=arguments.l2_estimate,
        changes=_changes(arguments.join, arguments.leave, replicas),
    )


def in_words(scenario: Scenario, slo_s: float = SLO_S) -> str:
    """What differs from the usual, so that unlike scenarios are never taken for the same."""
    usual, engine, usual_engine = Scenario(), scenario.engine, EngineOptions()
    joining = [change for change in scenario.changes if change.joins]
    leaving = [change for change in scenario.changes if not change.joins]
    texts = {
        f"{engine.l0_blocks} blocks": engine.l0_blocks != usual_engine.l0_blocks,
        f"{engine.l1_blocks} L1 blocks": engine.l1_blocks,
        f"{engine.l2_blocks} L2 blocks": engine.l2_blocks,
        f"{scenario.gateways} gateways": scenario.gateways != usual.gateways,
        f"events {scenario.event_delay_s * 1000:g} ms late": scenario.event_delay_s != usual.event_delay_s,
        f"probes each {scenario.probe_s:g} s": scenario.probe_s != usual.probe_s,
        f"{scenario.streamed * 100:g} % streamed": scenario.streamed != usual.streamed,
        f"rate x{scenario.rate_error:g}": scenario.rate_error != usual.rate_error,
        f"speeds {'/'.join(f'{speed:g}' for speed in scenario.speeds)}": scenario.speeds,
        "untold": not scenario.tells_speeds,
        "no events": not scenario.publishes,
        "L2 estimated": scenario.estimates_l2,
        f"joining at {'/'.join(f'{change.at:g}' for change in joining)}": joining,
        f"leaving at {'/'.join(f'{change.at:g}' for change in leaving)}": leaving,
        f"SLO {slo_s:g} s": slo_s != SLO_S,
    }
    return "; ".join(text for text, differs in texts.items() if differs)


def _cell(arguments: argparse.Namespace, trace: str, scenario: Scenario) -> Cell:
    requests = arguments.requests or max(_LEAST_REQUESTS, _REQUESTS_A_REPLICA * scenario.replicas)
    return Cell(trace, requests, scenario.replicas, scenario.load, in_words(scenario, arguments.slo_s))


def _sources(words: Sequence[str]) -> dict[str, str]:
    """Of each trace's name: the generator's name, or the file."""
    sources: dict[str, str] = {}
    for word in words:
        name = word if word in generator.KINDS else Path(word).stem
        if sources.setdefault(name, word) != word:
            raise ValueError(f"{sources[name]} and {word} would both be named {name}: rename one")
    return sources


def _changes(joining: Sequence[Part], leaving: Sequence[Part], replicas: int) -> tuple[Change, ...]:
    """The last ones join, those before them leave, so that slow ones, which are the first, stay."""
    joins = [True] * sum(part.replicas for part in joining)
    leaves = [False] * sum(part.replicas for part in leaving)
    if len(joins) + len(leaves) >= replicas:
        raise ValueError(f"--join and --leave speak of {len(joins) + len(leaves)} replicas of {replicas}: none stays")
    times = [part.number for part in [*joining, *leaving] for _ in range(part.replicas)]
    numbers = range(replicas - 1, -1, -1)
    return tuple(Change(at, number, join) for at, number, join in zip(times, numbers, joins + leaves))
