"""Whether several gateways choose as one does: the same load through 1, 2 and 4 of them, with and without shared load.

    python -m benchmarks.gateways [--seeds 3] [--waves 8] [--replicas 4] [--redis URL] [--learn]

Conversations begin in bursts, some of a burst share a new system prompt, and each turn goes to a random gateway, so
that a conversation hops between them. Every gateway is a process; their index lies in a Valkey of the benchmark's own
(or in the Redis at URL, which is emptied). Replicas and clients are simulated in one process. The replicas are slow, so
that what is compared is where requests go and not what a gateway costs; the gateways are told how slow. With --learn
they are not: then each has to learn it by itself, from its part of the requests. Over all seeds, the same for every
row:

    cached    share of prompt tokens served from cache, as the replicas counted it
    TTFT      to the first body byte, at the client; median and 90th percentile
    spread    requests at the fullest replica over the mean of all, at every moment with at least one for each: its mean
    fullest   requests answered by the replica that answered most, over the mean of all
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from statistics import mean
from typing import NamedTuple

import redis
import uvloop

from loadtest.closed_loop import ClosedLoop, every, percentile
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds
from loadtest.workload import Dialogue, Workload
from router_strategies._cost import Rates
from tests.fakes.redis_servers import RedisServer
from tests.running_gateway import RunningGateway, running_gateway

_WAVE_S = 3.0  # from one burst to the next
_BURST_S = 0.05  # in which all of one begin
_ASSISTANTS = 4  # new system prompts in a burst
_DIALOGUES = 16  # in a burst
_SAMPLE_S = 0.02
_SPEED = 0.25  # of what a gateway assumes unless it is told
_ACQUAINTED_S = 1.5  # after which every gateway has told of itself
_OPTIONS = ReplicaOptions(
    model="simulated",
    capacity_blocks=2400,
    speeds=Speeds(prefill_tokens_per_s=_SPEED * Rates().prefill_tokens_s, chunk_tokens=512),
)


class Fleet(NamedTuple):
    """How many gateways, and whether they tell each other what they dispatch."""

    gateways: int
    share_load: bool

    @property
    def name(self) -> str:
        if self.gateways == 1:
            return "1 gateway"
        return f"{self.gateways} gateways, {'shared' if self.share_load else 'each alone'}"


FLEETS = (Fleet(1, False), Fleet(2, True), Fleet(4, True), Fleet(2, False), Fleet(4, False))


@dataclass(slots=True)
class Result:
    """What one fleet got, over all seeds."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    ttfts_s: list[float] = field(default_factory=list)
    spreads: list[float] = field(default_factory=list)
    fullest: list[float] = field(default_factory=list)
    errors: int = 0

    def row(self) -> tuple[str, ...]:
        p50_s, p90_s = (percentile(self.ttfts_s, share) for share in (0.5, 0.9))
        return (
            f"{self.cached_tokens / max(1, self.prompt_tokens):.1%}",
            f"{p50_s * 1000:.0f} ms",
            f"{p90_s * 1000:.0f} ms",
            f"{mean(self.spreads):.2f}",
            f"{mean(self.fullest):.2f}",
            str(self.errors),
        )


def bursts(words: Sequence[str], waves: int, seed: int) -> list[Dialogue]:
    """Conversations of which ``_DIALOGUES`` begin at once, with ``_ASSISTANTS`` system prompts of their own."""
    workload = Workload(
        dialogues=waves * _DIALOGUES, turns=3, assistants=waves * _ASSISTANTS, system_words=400, think_s=(0.2, 1.6)
    )
    rng = Random(seed)
    begun = []
    for number, dialogue in enumerate(workload.generate(words, seed)):
        wave = number % workload.assistants // _ASSISTANTS
        first, *others = dialogue.turns
        begins_s = wave * _WAVE_S + rng.uniform(0, _BURST_S)
        begun.append(replace(dialogue, turns=(first._replace(think_s=begins_s), *others)))
    return begun


@asynccontextmanager
async def running_fleet(targets: Sequence[str], redis_url: str, fleet: Fleet) -> AsyncIterator[list[str]]:
    """The gateways' URLs, once they know the replicas at ``targets`` and each other."""
    with ExitStack() as stack:
        try:
            gateways = await asyncio.to_thread(started, stack, targets, redis_url, fleet)
            await asyncio.sleep(_ACQUAINTED_S)
            yield [gateway.url for gateway in gateways]
        finally:
            await asyncio.to_thread(stack.close)


def started(stack: ExitStack, targets: Sequence[str], redis_url: str, fleet: Fleet) -> list[RunningGateway]:
    """The fleet's gateways, which end with ``stack``."""
    starting = [
        running_gateway(
            targets, redis_url=redis_url, share_load=str(fleet.share_load), access_log="false", log_level="info"
        )
        for _ in range(fleet.gateways)
    ]
    gateways = [stack.enter_context(gateway) for gateway in starting]
    for gateway in gateways:
        gateway.wait(partial(is_complete, gateway, len(targets)))
    return gateways


def is_complete(gateway: RunningGateway, replicas: int) -> bool:
    """Whether all replicas are up and their prompts can be tokenized."""
    status = gateway.status()
    healthy = sum(bool(replica["healthy"]) for replica in status["replicas"])
    return healthy == replicas and bool(status["models"])


class Trial(NamedTuple):
    """What is the same for every fleet."""

    replicas: Sequence[SimulatedReplica]
    redis_url: str
    waves: int
    learn: bool

    @property
    def targets(self) -> list[str]:
        """The replicas as a setting names them."""
        told = "" if self.learn else f"?speed={_SPEED}"
        return [f"r{number}={replica.url}{told}" for number, replica in enumerate(self.replicas)]

    async def play(self, fleet: Fleet, seed: int) -> Result:
        """One load through one fleet, on empty caches and an empty Redis."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()
        for replica in self.replicas:
            await replica.restart()
        result = Result()
        async with running_fleet(self.targets, self.redis_url, fleet) as urls:
            load = ClosedLoop(urls, _OPTIONS.model, seed=seed)
            async with asyncio.TaskGroup() as tasks:
                sampling = tasks.create_task(sample_spread(self.replicas, result.spreads))
                await load.run(bursts(self.replicas[0].folder.words, self.waves, seed))
                sampling.cancel()
        count(result, load, self.replicas)
        return result


async def sample_spread(replicas: Sequence[SimulatedReplica], spreads: list[float]) -> None:
    """Until cancelled."""
    async for _ in every(_SAMPLE_S):
        requests = [replica.scheduler.running + replica.scheduler.waiting for replica in replicas]
        if sum(requests) >= len(replicas):
            spreads.append(max(requests) / mean(requests))


def count(result: Result, load: ClosedLoop, replicas: Sequence[SimulatedReplica]) -> None:
    stats = [replica.scheduler.stats for replica in replicas]
    answered = [sum(row.finished.values()) for row in stats]
    result.prompt_tokens += sum(row.prompt_tokens for row in stats)
    result.cached_tokens += sum(row.hit_tokens for row in stats)
    result.ttfts_s += [sample.ttft_s for sample in load.samples if not sample.error]
    result.fullest.append(max(answered) / mean(answered))
    result.errors += sum(bool(sample.error) for sample in load.samples)


def merged(results: Sequence[Result]) -> Result:
    """Of all seeds."""
    total = Result()
    for result in results:
        total.prompt_tokens += result.prompt_tokens
        total.cached_tokens += result.cached_tokens
        total.ttfts_s += result.ttfts_s
        total.spreads += result.spreads
        total.fullest += result.fullest
        total.errors += result.errors
    return total


async def compare(options: argparse.Namespace, redis_url: str) -> dict[Fleet, Result]:
    """Seed by seed, every fleet in turn."""
    results: dict[Fleet, list[Result]] = {fleet: [] for fleet in FLEETS}
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(SimulatedReplica(_OPTIONS)) for _ in range(options.replicas)]
        trial = Trial(replicas, redis_url, options.waves, options.learn)
        for seed in range(1, options.seeds + 1):
            for fleet in FLEETS:
                began_s = time.monotonic()
                results[fleet].append(await trial.play(fleet, seed))
                print(f"  seed {seed}, {fleet.name}: {time.monotonic() - began_s:.0f} s", flush=True)
    return {fleet: merged(of_seeds) for fleet, of_seeds in results.items()}


def report(results: dict[Fleet, Result]) -> None:
    head = ("", "cached", "TTFT p50", "p90", "spread", "fullest", "errors")
    rows = [head, *((fleet.name, *result.row()) for fleet, result in results.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


@contextmanager
def redis_at(url: str) -> Iterator[str]:
    """``url``, or that of a Valkey that runs inside the block."""
    if url:
        yield url
    else:
        with RedisServer("valkey-9") as server:
            yield server.url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--waves", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--redis", default="", metavar="URL")
    parser.add_argument("--learn", action="store_true")
    options = parser.parse_args()
    requests = options.waves * _DIALOGUES * 3
    print(f"{options.replicas} simulated replicas, {requests} requests a seed in {options.waves} bursts")
    with redis_at(options.redis) as url:
        report(uvloop.run(compare(options, url)))


if __name__ == "__main__":
    main()
