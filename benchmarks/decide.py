"""What a decision costs: building the candidates and choosing among them, and everything before it.

    python -m benchmarks.decide

Medians of 5 rounds, in microseconds of one core. No network: the index is in memory, prompts are token ids.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable

from gateway.fleet.load_report import LoadReport
from gateway.fleet.model_card import parse_models
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.candidates import BlockSizes, Candidates
from gateway.router.router import Router
from loadtest.replica.model_folder import DEFAULT_FOLDER
from router_strategies import RouteRequest, load

ROUNDS, REPEATS = 5, 200
SECRET = b"benchmark"


class _Events:
    """All replicas publish, in blocks of 16, and are believed."""

    def __init__(self) -> None:
        self._stats = FeedStats(state=FeedState.FRESH, block_sizes={Tier.L0: 16}, l0_block_size=16)

    def stats(self, _: ReplicaKey) -> FeedStats:
        return self._stats


def _pool(replicas: int) -> ReplicaPool:
    pool = ReplicaPool()
    pool.reconcile(parse_servers(",".join(f"r{n}=http://10.0.0.{n}:8000" for n in range(replicas))))
    for server in pool.servers:
        pool.identify(server, parse_models({"data": [{"id": "m"}]}), {})
        server.probe_answered()
        server.replicas[0].reported(LoadReport(1.0, 0.0, 0.5, block_size=16, kv_blocks=32_768), 0.0)
    return pool


def _microseconds(work: Callable[[], object]) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(REPEATS):
            work()
        rounds.append((time.perf_counter() - began) / REPEATS * 1e6)
    return statistics.median(rounds)


async def main() -> None:
    registry = EncoderRegistry(str(DEFAULT_FOLDER), hub=None, remote=None, max_prompt_chars=10_000_000)
    await registry.load("m", "")
    for replicas in (2, 8, 64):
        pool, index, routed, speeds, events = _pool(replicas), MemoryIndex(), Routed(), Speeds(), _Events()
        router = Router(
            pool=pool,
            index=index,
            routed=routed,
            events=events,
            speeds=speeds,
            encoder=registry.get,
            strategies={"kv_aware": load("kv_aware")},
            strategy="kv_aware",
            secret=lambda: SECRET,
            clock=time.monotonic,
        )
        ids = list(range(7_500))
        chain = extend_chain(chain_root(SECRET, "m", "", "", 16), pack_tokens(ids), 16)
        for number, replica in enumerate(pool.replicas):
            index.begin(replica.key, {Tier.L0: chain[: 400 - number]})
        body = json.dumps({"model": "m", "prompt": ids}).encode()
        prepared = await router.prepare(InferenceRequest.parse("completions", body))
        candidates = Candidates(routed, events, BlockSizes(events), speeds)
        members = list(pool.replicas)
        strategy = load("kv_aware")

        def build_and_select() -> None:
            built = candidates.build(prepared, members, time.monotonic())  # noqa: B023
            strategy.select(RouteRequest(7_500), built)  # noqa: B023

        def attempt() -> None:
            router.attempt(prepared).end(Outcome.OK)  # noqa: B023

        print(
            f"{replicas:3} replicas, 7,500 tokens: build and select {_microseconds(build_and_select):7.0f} us, ", end=""
        )
        print(f"attempt, booked and ended {_microseconds(attempt):7.0f} us")
        chat = {"model": "m", "messages": [{"role": "user", "content": "hello brave new world " * 10}]}
        long = {"model": "m", "messages": [{"role": "user", "content": "hello brave new world " * 1_500}]}
        for name, request in (("40-word", chat), ("6,000-word", long)):
            raw = json.dumps(request).encode()
            print(f"    {name} chat, parsed to decided: {await _whole(router, raw):7.0f} us")
    registry.close()


async def _whole(router: Router, raw: bytes) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(REPEATS // 4):
            prepared = await router.prepare(InferenceRequest.parse("chat", raw))
            router.attempt(prepared).end(Outcome.OK)
        rounds.append((time.perf_counter() - began) / (REPEATS // 4) * 1e6)
    return statistics.median(rounds)


if __name__ == "__main__":
    asyncio.run(main())
