"""The demo: three simulated replicas, the same conversations through four strategies, and a table.

Owns the replicas and the load. Does not know how a gateway is started: the caller hands that in, so that
nothing here stands above the gateway's edge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from loadtest.closed_loop import ClosedLoop, every, percentile
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds
from loadtest.workload import Dialogue, Workload

#: Gets the replicas' URLs and a strategy's name; inside, the gateway serves at the base URL it gives.
StartGateway = Callable[[Sequence[str], str], AbstractAsyncContextManager[str]]
Out = Callable[[str], object]

STRATEGIES = ("round_robin", "least_loaded", "prefix_aware", "kv_aware")
PROGRESS_S = 1.0


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """One replica's cache holds about half of the conversations; the three together hold them all."""

    replicas: int = 3
    replica: ReplicaOptions = field(
        default_factory=lambda: ReplicaOptions(
            model="demo",
            capacity_blocks=1600,
            speeds=Speeds(prefill_tokens_per_s=4000, chunk_tokens=2048),
        )
    )
    workload: Workload = field(default_factory=Workload)
    strategies: Sequence[str] = STRATEGIES

    def with_turns(self, turns: int) -> DemoOptions:
        """The same with conversations of that many turns."""
        return replace(self, workload=replace(self.workload, turns=turns))


class StrategyResult(NamedTuple):
    """What one strategy got. Tokens and requests are as the replicas counted them."""

    strategy: str
    prompt_tokens: int
    cached_tokens: int
    ttft_p50_s: float
    ttft_p90_s: float
    requests: tuple[int, ...]
    errors: int
    seconds: float

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


async def run_demo(
    start_gateway: StartGateway,
    *,
    out: Out = print,
    stay: bool = False,
    seed: int = 1,
    options: DemoOptions | None = None,
) -> list[StrategyResult]:
    """Play the load through each strategy and print what came of it. ``stay``: then serve until cancelled."""
    options = options or DemoOptions()
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(SimulatedReplica(options.replica)) for _ in range(options.replicas)]
        words = replicas[0].folder.words
        demo = Demo(replicas, options.workload.generate(words, seed), start_gateway, out)
        out(demo.introduction())
        results = [await demo.play(strategy) for strategy in options.strategies]
        out(table(results))
        if stay:
            await demo.serve(options.strategies[-1])
        out(how_to_call(demo.base_url, options.replica.model))
        out("It has ended; `make demo STAY=1` keeps it up.")
        return results


class Demo:
    """The replicas and the conversations of one run."""

    def __init__(
        self,
        replicas: Sequence[SimulatedReplica],
        dialogues: Sequence[Dialogue],
        start_gateway: StartGateway,
        out: Out,
    ) -> None:
        self._replicas = replicas
        self._dialogues = dialogues
        self._start_gateway = start_gateway
        self._out = out
        self._urls = [replica.url for replica in replicas]
        self._model = replicas[0].options.model
        self.base_url = ""
        self._turns = sum(len(dialogue.turns) for dialogue in dialogues)

    def introduction(self) -> str:
        options = self._replicas[0].options
        capacity = options.capacity_blocks * options.block_size
        return (
            f"{len(self._replicas)} simulated replicas with room for {capacity:,} tokens each.\n"
            f"{len(self._dialogues)} conversations at once, {self._turns} requests for each strategy."
        )

    async def play(self, strategy: str) -> StrategyResult:
        """The whole load through a fresh gateway with this strategy, on empty caches."""
        self._out(f"\n{strategy}")
        for replica in self._replicas:
            await replica.restart()
        async with self._start_gateway(self._urls, strategy) as self.base_url:
            load = ClosedLoop(self.base_url, self._model)
            started_s = asyncio.get_running_loop().time()
            async with asyncio.TaskGroup() as tasks:
                progress = tasks.create_task(self._tell_progress(load))
                await load.run(self._dialogues)
                progress.cancel()
            seconds = asyncio.get_running_loop().time() - started_s
        self._out(f"  done in {seconds:.0f} s")
        return self._result(strategy, load, seconds)

    async def serve(self, strategy: str) -> None:
        """Keep a gateway up and say how to talk to it. Cancel to stop."""
        async with self._start_gateway(self._urls, strategy) as self.base_url:
            self._out(how_to_call(self.base_url, self._model))
            self._out("Ctrl-C ends it.")
            await asyncio.get_running_loop().create_future()

    async def _tell_progress(self, load: ClosedLoop) -> None:
        async for _ in every(PROGRESS_S):
            done = len(load.samples)
            if done:
                prompt_tokens, cached_tokens = self._counted()
                share = cached_tokens / max(1, prompt_tokens)
                self._out(f"  {done:4}/{self._turns} answered, {load.in_flight:3} in flight, {share:4.0%} cached")

    def _counted(self) -> tuple[int, int]:
        stats = [rank.scheduler.stats for replica in self._replicas for rank in replica.ranks]
        return sum(row.prompt_tokens for row in stats), sum(row.hit_tokens for row in stats)

    def _result(self, strategy: str, load: ClosedLoop, seconds: float) -> StrategyResult:
        ttfts = [sample.ttft_s for sample in load.samples if not sample.error]
        return StrategyResult(
            strategy,
            *self._counted(),
            percentile(ttfts, 0.5),
            percentile(ttfts, 0.9),
            tuple(sum(replica.scheduler.stats.finished.values()) for replica in self._replicas),
            sum(bool(sample.error) for sample in load.samples),
            seconds,
        )


def table(results: Sequence[StrategyResult]) -> str:
    """The results, one strategy a line."""
    head = ("strategy", "cached", "TTFT p50", "p90", "requests per replica", "errors")
    rows = [head, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    note = "cached: share of prompt tokens served from cache, as the replicas counted it"
    return "\n".join(["", *lines, "", note])


def how_to_call(base_url: str, model: str) -> str:
    """Where to point a client, and a line to try."""
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    return (
        f"\nOpenAI API at {base_url}/v1 (any key, model {model!r}). Try:\n"
        f"  curl -i {base_url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"
    )


def _row(result: StrategyResult) -> tuple[str, ...]:
    return (
        result.strategy,
        f"{result.cached_share:.1%}",
        f"{result.ttft_p50_s * 1000:.0f} ms",
        f"{result.ttft_p90_s * 1000:.0f} ms",
        " / ".join(str(count) for count in result.requests),
        str(result.errors),
    )
