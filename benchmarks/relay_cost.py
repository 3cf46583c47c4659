"""What one relayed request, and one relayed chunk, costs in CPU time: the whole gateway under two strategies, its edge
alone, and others beside them.

    python -m benchmarks.relay_cost [--rounds 5] [--seconds 3] [--vllm-router PATH] [--peer NAME=COMMAND ...]

Others are HAProxy (one thread) where that is installed, a vllm-router 0.1.17 whose executable is at PATH, and anything
that COMMAND starts: {port} and {metrics_port} stand for where it must listen, {urls} for the replicas with commas
between, {urls_sp} with spaces.

Every proxy gets the same load in turn, round by round, in front of the same two replicas, which cost next to nothing.
What counts is the user and system time of its process and those it started, from the first question to the last
answer, so the figures hold on a busy machine better than throughput does: medians over the rounds. Compare ratios
within one run only. Linux.

    post    us per plain request, 32 connections
    stream  us per chunk, 64 connections, 64 chunks an answer, one each 2 ms

Ours has everything on: access log, metrics, receipts, events. No two prompts are equal: 40 words, 50 tokens, of which
some replica holds the first 32. kv_aware must say so in at least 95 % of its answers, or the run fails. With each
answer its replica stores one block and evicts one (--turnover), and tells the gateways so.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import uvloop

from benchmarks.mock_replica import CHUNKS
from benchmarks.relay.load import Driven, Driver, Load
from benchmarks.relay.processes import cpu_s, prepare, replicas
from benchmarks.relay.prompts import Prompts
from benchmarks.relay.proxies import (
    HAPROXY,
    KV_AWARE,
    ROUND_ROBIN,
    VLLM_CACHE_AWARE,
    VLLM_ROUND_ROBIN,
    Proxy,
    running_proxies,
    vllm_routers,
)
from loadtest.replica.model_folder import ModelFolder

LOADS = (Load("post", "request", 32, 1, stream=False), Load("stream", "chunk", 64, CHUNKS, stream=True))
_LEAST_MATCHED = 0.95


class Target(NamedTuple):
    """``ours`` may cost at most ``most`` times what ``other`` does."""

    unit: str
    ours: str
    other: str
    most: float

    def line(self, cost: Mapping[str, float]) -> str:
        """``cost``: microseconds, of each proxy that was measured."""
        what = f"{self.ours} / {self.other}, per {self.unit}"
        if self.other not in cost:
            return f"  {what:48} -      target <= {self.most}"
        ratio = cost[self.ours] / cost[self.other]
        return f"  {what:48} {ratio:5.2f}  target <= {self.most}{'' if ratio <= self.most else '   MISSED'}"


TARGETS = (
    Target("request", ROUND_ROBIN, VLLM_ROUND_ROBIN, 0.9),
    Target("request", KV_AWARE, VLLM_CACHE_AWARE, 1.0),
    Target("chunk", ROUND_ROBIN, VLLM_ROUND_ROBIN, 1.0),
    Target("chunk", ROUND_ROBIN, HAPROXY, 1.4),
    Target("chunk", KV_AWARE, VLLM_ROUND_ROBIN, 1.0),
    Target("chunk", KV_AWARE, HAPROXY, 1.4),
)


class Costs:
    """What each proxy took under one load, and how many of kv_aware's answers were matched."""

    def __init__(self, load: Load, proxies: Sequence[Proxy]) -> None:
        self._load = load
        self._figures: dict[str, list[float]] = {proxy.name: [] for proxy in proxies}
        self._answers = self._matched = 0

    def measure(self, proxy: Proxy, prompts: Prompts, seconds: float) -> None:
        """Microseconds of CPU per unit, once more."""
        used_s, driven = uvloop.run(_measure(proxy, self._load, prompts, seconds))
        self._figures[proxy.name].append(1e6 * used_s / (driven.answers * self._load.per))
        if proxy.strategy == KV_AWARE:
            self._answers += driven.answers
            self._matched += driven.matched

    def report(self) -> None:
        """Print all, with what each is of the first. Raises ``SystemExit`` if too few were matched."""
        cost = {name: statistics.median(values) for name, values in self._figures.items()}
        first = next(iter(cost))
        for name, values in self._figures.items():
            spread = f"({min(values):.1f} .. {max(values):.1f})"
            against = f"{cost[name] / cost[first]:6.2f} of {first}"
            print(f"{self._load.name:8}{name:18}{cost[name]:7.1f} us per {self._load.unit}  {against}  {spread}")
        share = self._matched / self._answers
        print(f"  {share:.1%} of the {self._answers} answers of {KV_AWARE} matched, target >= {_LEAST_MATCHED:.0%}")
        for target in TARGETS:
            if target.unit == self._load.unit:
                print(target.line(cost), flush=True)
        if share < _LEAST_MATCHED:
            raise SystemExit(f"{KV_AWARE} was not measured: too few of its answers were matched")


async def _measure(proxy: Proxy, load: Load, prompts: Prompts, seconds: float) -> tuple[float, Driven]:
    async with Driver(proxy.port, load, prompts) as driver:
        before_s = cpu_s(proxy.pid)
        driven = await driver.run(seconds)
        return cpu_s(proxy.pid) - before_s, driven


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turnover", type=int, default=1, metavar="BLOCKS")
    parser.add_argument("--vllm-router", default="", metavar="PATH")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    return parser.parse_args()


def main() -> None:
    options = _options()
    prepare()
    peers = vllm_routers(options.vllm_router) if options.vllm_router else {}
    peers |= {name: command for name, _, command in (peer.partition("=") for peer in options.peer)}
    prompts = Prompts.short(ModelFolder())
    with (
        replicas("--turnover", str(options.turnover)) as behind,
        running_proxies(behind.ports, peers, prompts) as proxies,
    ):
        for load in LOADS:
            costs = Costs(load, proxies)
            for _ in range(options.rounds):
                for proxy in proxies:
                    costs.measure(proxy, prompts, options.seconds)
            costs.report()


if __name__ == "__main__":
    main()
