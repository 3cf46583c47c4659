"""What looking on costs a decision: shadows, and the decision log with its line.

    python -m benchmarks.onlookers

Medians of 5 rounds, in microseconds of CPU of all threads, the log's own among them, for chats of about 8,000 tokens
that half of the replicas hold: an attempt from choice to end, which is what requests wait for, and the same with the
line that is written when the answer has ended.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks.decide import FLEETS, ROUNDS, SECONDS, chat, hold, router_of
from gateway.fleet.outcome import Outcome
from gateway.onlooker_parts import OnlookerParts
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.exchange import Exchange
from gateway.router.prepared import Prepared
from gateway.router.router import Router
from gateway.serving import spare_the_collector
from gateway.settings import Settings
from gateway.usage import Usage
from loadtest.replica.model_folder import DEFAULT_FOLDER

PAIRS_OF_WORDS = 1_330
LOG = "decisions.jsonl"
LOOKING: Mapping[str, Sequence[str]] = {
    "nobody": (),
    "round_robin": ("shadow",),
    "prefix_aware": ("shadow",),
    "log": ("log",),
    "prefix_aware and log": ("shadow", "log"),
}


def _settings(name: str, folder: str) -> Settings:
    environ = {}
    if "log" in LOOKING[name]:
        environ["PREFIXWAY_DECISION_LOG"] = str(Path(folder) / LOG)
    if "shadow" in LOOKING[name]:
        environ["PREFIXWAY_SHADOW"] = name.split(maxsplit=1)[0]
    return Settings.from_env(environ)


def _try(router: Router, prepared: Prepared) -> Exchange:
    attempt = router.attempt(prepared)
    attempt.first_byte()
    attempt.end(Outcome.OK)
    exchange = Exchange("chat", "r", 1.0, first_byte_s=1.1, ended_s=2.0, model="m", attempts=1, outcome="ok")
    exchange.usage, exchange.decision = Usage(8000, 100, 0), attempt.decision
    return exchange


def _serve(router: Router, prepared: Prepared, parts: OnlookerParts) -> None:
    exchange = _try(router, prepared)
    for observe in parts.observers:
        observe(exchange)


def _microseconds(work: Callable[[], object]) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = now = time.process_time()
        done = 0
        while now - began < SECONDS:
            work()
            done += 1
            now = time.process_time()
        rounds.append((now - began) / done * 1e6)
    return statistics.median(rounds)


def _longest_line(log: Path) -> int:
    return max(map(len, log.read_text().splitlines())) if log.exists() else 0


async def _measure(replicas: int, name: str, encoders: EncoderRegistry) -> None:
    router, index, pool = router_of(replicas, "kv_aware", encoders)
    request = InferenceRequest.parse("chat", chat(PAIRS_OF_WORDS))
    hold(await router.prepare(request), index, pool)
    with tempfile.TemporaryDirectory() as folder:
        parts = OnlookerParts(_settings(name, folder), lambda: b"benchmark", time.monotonic)
        router.watch(parts.onlookers)
        prepared = await router.prepare(request)
        attempt = _microseconds(partial(_try, router, prepared))
        whole = _microseconds(partial(_serve, router, prepared, parts))
        parts.close()
        line_bytes = _longest_line(Path(folder) / LOG)
    print(f"{replicas:3} replicas  {name:22} {attempt:9.1f} {whole:9.1f} us {line_bytes:6,} bytes")


async def main() -> None:
    encoders = EncoderRegistry(str(DEFAULT_FOLDER), hub=None, remote=None, max_prompt_chars=10_000_000)
    await encoders.load("m", "")
    spare_the_collector()  # as `prefixway serve` does
    print(f"{'':35}  attempt all of it")
    for replicas, name in product(FLEETS, LOOKING):
        await _measure(replicas, name, encoders)
    encoders.close()


if __name__ == "__main__":
    asyncio.run(main())
