"""Whether a running gateway ranks strategies as the offline replay does: one trace slice, both ways.

    python -m benchmarks.live_replay [--trace hot_prefix] [--requests 600] [--turns 0] [--replicas 4] [--blocks 300]
                                     [--load 0.6] [--time-scale 1] [--seed 1] [--draws 5]
                                     [--strategies NAME,...]

Live, each strategy gets a gateway process and simulated replicas of its own, and the slice over HTTP; offline the very
same slice is replayed several times, which differ in how ties fall. The first tenth of the requests fills the caches
and is left out. Places, live/offline, are by hit share and by mean TTFT; times are milliseconds. Replicas and clients
are one process: its CPU and the gateway's are shown, since times are the engines' only while both are small.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import uvloop

from benchmarks.relay.processes import cpu_s
from loadtest.live.agreement import Pair, table, verdict
from loadtest.live.live_run import play_live
from loadtest.live.live_slice import LiveSlice
from loadtest.replay.contender import RIVAL, Contender, contenders
from loadtest.replay.figures import Figures
from loadtest.replay.load_level import bound
from loadtest.replay.run import replay
from loadtest.replay.scenario import EngineOptions, Scenario
from loadtest.replay.trace import Trace
from loadtest.replay.trace_source import TraceSource
from tests.end_to_end.live_gateways import LiveGateways

STRATEGIES = "round_robin,least_loaded,session,prefix_aware,kv_aware"
_BLOCK_TOKENS = 512
_EVENT_DELAY_S = 0.005  # on one machine


def live_slice(options: argparse.Namespace) -> LiveSlice:
    """What the arguments say. Raises ``ValueError``."""
    trace = TraceSource.of(options.trace).sample(options.requests * (10 if options.turns else 1), options.seed)
    trace = cut(trace, options.turns).first(options.requests)
    engine = EngineOptions(l0_blocks=options.blocks * _BLOCK_TOKENS // trace.block_tokens)
    scenario = Scenario(replicas=options.replicas, engine=engine, load=options.load, event_delay_s=_EVENT_DELAY_S)
    return LiveSlice.of(trace, scenario, seed=options.seed, time_scale=options.time_scale)


def cut(trace: Trace, turns: int) -> Trace:
    """Each session's first turns; 0: all."""
    if not turns:
        return trace
    return replace(trace, sessions=[session._replace(turns=session.turns[:turns]) for session in trace.sessions])


async def both(live: LiveSlice, contender: Contender, draws: int) -> Pair:
    """Live once, and offline so often, with other ties each time."""
    options = dict(contender.options)
    cpus_s: list[float] = []
    gateways = LiveGateways(
        live.gateway_settings(), options, lambda gateway: cpus_s.extend(_cpus_s(gateway.process.pid))
    )
    outcome = await play_live(live, contender.name, gateways.start)
    seconds, gateway_s, own_s = (after - before for before, after in zip(cpus_s[:3], cpus_s[3:], strict=True))
    print(
        f"  {contender.label}: {seconds:.0f} s; CPU: gateway {gateway_s / seconds:.2f} of a core, "
        f"replicas and clients {own_s / seconds:.2f}",
        flush=True,
    )
    replays = [replay(live.trace, live.scenario, contender.name, options=options, seed=seed) for seed in range(draws)]
    return Pair(contender.label, Figures.of(outcome), [Figures.of(one) for one in replays])


def _cpus_s(gateway: int) -> tuple[float, float, float]:
    """The time, and what the gateway and this process have used until now."""
    return time.monotonic(), cpu_s(gateway), time.process_time()


def chosen(words: str) -> list[Contender]:
    """Strategies with their options. Raises ``ValueError``; also for rivals, which no gateway has."""
    found = contenders(words.split(","))
    if rivals := [contender.label for contender in found if contender.name.startswith(RIVAL)]:
        raise ValueError(f"no gateway has {', '.join(rivals)}")
    return found


async def compare(live: LiveSlice, strategies: Sequence[Contender], draws: int) -> None:
    trace, scenario = live.trace, live.scenario
    span_s = trace.sessions[-1].begins_s
    title = (
        f"{trace.name}: {trace.requests} requests, begun within {span_s:.0f} s; {scenario.replicas} replicas, "
        f"load {scenario.load:g}, bound {bound(trace, warmup=0.1):.3f}"
    )
    print(title, *trace.notes, sep="\n", flush=True)
    pairs = [await both(live, contender, draws) for contender in strategies]
    print(table("", pairs), verdict(pairs), sep="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--trace", default="hot_prefix", help="a file, or a generated trace's name")
    add("--requests", type=int, default=600)
    add("--turns", type=int, default=0, help="at most so many of each session; 0: all")
    add("--replicas", type=int, default=4)
    add("--blocks", type=int, default=300, help="of 512 tokens before shrinking, for each replica")
    add("--load", type=float, default=0.6)
    add("--time-scale", type=float, default=1.0, help="0.1: everything in a tenth of the time")
    add("--seed", type=int, default=1)
    add("--draws", type=int, default=5, help="replays of each strategy, which differ in how ties fall")
    add("--strategies", default=STRATEGIES, help="NAME[@OPTION=VALUE...],...")
    options = parser.parse_args()
    try:
        live, strategies = live_slice(options), chosen(options.strategies)
    except ValueError as error:
        parser.error(str(error))
    uvloop.run(compare(live, strategies, options.draws))


if __name__ == "__main__":
    main()
