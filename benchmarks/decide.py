"""What a decision costs: all of it (a chat parsed, tokenized, hashed, looked up, sent somewhere, answered and ended),
the attempt alone (from choice to end), and of that the choice (candidates built, one of them selected).

    python -m benchmarks.decide

Medians of 5 rounds, in microseconds of CPU. No network: the index is in memory, and holds every prompt. A word is about
three tokens of the tokenizer used. Every replica reports a request that nobody here sent: the dearest candidates.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import product

from gateway.fleet.load_report import LoadReport
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.candidates import BlockSizes, Candidates
from gateway.router.prepared import Prepared
from gateway.router.router import Router
from gateway.serving import spare_the_collector
from loadtest.replica.model_folder import DEFAULT_FOLDER
from router_strategies import Choice, RouteRequest, load

ROUNDS, SECONDS = 5, 0.1
FLEETS = (2, 8, 64)
STRATEGIES = ("round_robin", "kv_aware")
PAIRS_OF_WORDS = (20, 1_330, 33_330)


class _Events:
    """All replicas publish, in blocks of 16, and are believed."""

    def __init__(self) -> None:
        self._stats = FeedStats(state=FeedState.FRESH, block_sizes={Tier.L0: 16}, l0_block_size=16)

    def stats(self, _: ReplicaKey) -> FeedStats:
        return self._stats


def pool_of(replicas: int) -> ReplicaPool:
    pool = ReplicaPool()
    pool.reconcile(parse_servers(",".join(f"r{n}=http://10.0.0.{n}:8000" for n in range(replicas))))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": [{"id": "m"}]}), {})
        server.probe_answered()
        server.replicas[0].reported(LoadReport(1.0, 0.0, 0.5, block_size=16, kv_blocks=32_768), 0.0)
    return pool


def router_of(replicas: int, strategy: str, encoders: EncoderRegistry) -> tuple[Router, MemoryIndex, ReplicaPool]:
    pool, index = pool_of(replicas), MemoryIndex()
    router = Router(
        pool=pool,
        index=index,
        routed=Routed(),
        events=_Events(),
        speeds=Speeds(),
        encoder=encoders.get,
        strategies={strategy: load(strategy)},
        strategy=strategy,
        secret=lambda: b"benchmark",
        clock=time.monotonic,
    )
    return router, index, pool


def chat(pairs_of_words: int) -> bytes:
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "hello world " * pairs_of_words}]}
    ).encode()


def hold(prepared: Prepared, index: MemoryIndex, pool: ReplicaPool) -> None:
    """Let half of the replicas hold the prompt, and the others half of it."""
    chain = prepared.chains.get(16, ())
    for number, replica in enumerate(pool.replicas):
        index.begin(replica.key, {Tier.L0: chain[: len(chain) // (1 + number % 2)]})


def choice_of(prepared: Prepared, strategy: str, replicas: Sequence[Replica]) -> Callable[[], Choice]:
    """The choice alone, as the router makes it, of replicas that have nothing to do."""
    chooser, events, speeds = load(strategy), _Events(), Speeds()
    candidates = Candidates(Routed(), events, BlockSizes(events), speeds)
    facts = RouteRequest(prepared.prompt.count)

    def choose() -> Choice:
        seen = candidates.build(prepared, replicas, 0.0) if chooser.reads_load else [each.named for each in replicas]
        return chooser.select(facts, seen)

    return choose


async def _serve(router: Router, raw: bytes) -> None:
    request = InferenceRequest.parse("chat", raw)
    _try(router, router.prepare_now(request) or await router.prepare(request))


def _try(router: Router, prepared: Prepared) -> None:
    attempt = router.attempt(prepared)
    attempt.decision.headers()
    attempt.first_byte()
    attempt.end(Outcome.OK)


async def _microseconds(work: Callable[[], Awaitable[object]]) -> float:
    """CPU time of all threads, so that neighbours on the machine do not count."""
    rounds = []
    for _ in range(ROUNDS):
        began = now = time.process_time()
        done = 0
        while now - began < SECONDS:
            await work()
            done += 1
            now = time.process_time()
        rounds.append((now - began) / done * 1e6)
    return statistics.median(rounds)


async def _measure(replicas: int, strategy: str, pairs: int, encoders: EncoderRegistry) -> None:
    router, index, pool = router_of(replicas, strategy, encoders)
    raw = chat(pairs)
    request = InferenceRequest.parse("chat", raw)
    hold(await router.prepare(request), index, pool)
    prepared = await router.prepare(request)

    choose = choice_of(prepared, strategy, list(pool.replicas))

    async def tried() -> None:
        _try(router, prepared)

    async def chosen() -> None:
        choose()

    figures = [await _microseconds(work) for work in (partial(_serve, router, raw), tried, chosen)]
    decision = (await router.explain(request)).decision
    matched = (decision and decision.matched) or "unread"
    print(f"{replicas:3} replicas, {2 * pairs:6,} words  {strategy:12}", end="")
    print("".join(f" {figure:9.1f}" for figure in figures), "us", "", matched)


async def main() -> None:
    encoders = EncoderRegistry(str(DEFAULT_FOLDER), hub=None, remote=None, max_prompt_chars=10_000_000)
    await encoders.load("m", "")
    spare_the_collector()  # as `prefixway serve` does
    print(f"{'':40}  all of it   attempt    choice")
    for replicas, pairs, strategy in product(FLEETS, PAIRS_OF_WORDS, STRATEGIES):
        await _measure(replicas, strategy, pairs, encoders)
    encoders.close()


if __name__ == "__main__":
    asyncio.run(main())
