"""What Redis's troubles cost requests, and how long until all is as before. ``python -m benchmarks.redis_troubles``.

    python -m benchmarks.redis_troubles [--rounds 2] [--seconds 4] [--only frozen --only cut] [--budget-ms 5]

Two gateways, one that follows the events and one that only reads, are processes of their own, and so are four simulated
replicas, the load on both gateways, and a Valkey behind a proxy that spoils the way to it. Each trouble lasts
``--seconds``, after as long without any; the rounds take turns. About a minute and a half a round.

    asked       of both gateways while it lasts; failed: of all, also those before and after
    TTFT        to the first body byte, at the client, of both gateways: without trouble, then with it
    match       the look-up within the reader's decisions: without, then with
    blind       requests of the reader that were decided without the index
    matches     seconds from the end of the trouble until the reader predicts what the other gateway indexed during it
    equal       seconds until Redis holds exactly what the replicas do; the load stops when the reader matches again
    lines       that both gateways logged, from the trouble's beginning to the end of all
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from random import Random
from typing import Any

import httpx
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.other_process import OtherProcess, Parent
from benchmarks.steady_load import MODEL, Sample, put_load
from benchmarks.trouble_report import READER, Counts, Result, add_counts, table
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.block_bytes import members
from gateway.kv.tiers import Tier
from gateway.shared.link.keys import Keys
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds
from loadtest.replica.model_folder import ModelFolder
from tests.end_to_end.prediction_watch import cached, matched
from tests.end_to_end.redis_troubles import TROUBLES, Trouble
from tests.end_to_end.shared_house import SharedHouse, held_hashes
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.running_gateway import RunningGateway, running_gateway

_SECRET = "benchmark"  # noqa: S105 - of hashes in a Redis that lives for minutes
_REPLICAS = ("a", "b", "c", "d")
_OPTIONS = ReplicaOptions(
    model=MODEL,
    capacity_blocks=3072,
    speeds=Speeds(prefill_tokens_per_s=200_000, step_s=0.001, chunk_tokens=4096),
)
_WARM_UP_S = 8.0
_MARK_EVERY_S, _MARK_WORDS = 0.1, 200
_GIVEN_UP_S = 40.0


async def run_replicas(parent: Parent) -> None:
    """For :class:`OtherProcess`: it can be told ``urls`` and ``truth``, what each replica's cache holds."""
    async with AsyncExitStack() as stack:
        replicas = {id_: await stack.enter_async_context(SimulatedReplica(_OPTIONS)) for id_ in _REPLICAS}

        async def urls() -> list[str]:
            return [f"{id_}={replica.url}" for id_, replica in replicas.items()]

        async def truth() -> dict[str, set[bytes]]:
            return {id_: set(members(held_hashes(one, _SECRET.encode()))) for id_, one in replicas.items()}

        await parent.obey({"urls": urls, "truth": truth})


@asynccontextmanager
async def slow_20_ms(house: SharedHouse) -> AsyncIterator[None]:
    """Every answer comes a little later than a request waits."""
    house.proxy.delay(0.02)
    yield
    await house.proxy.heal()


@asynccontextmanager
async def nothing(_: SharedHouse) -> AsyncIterator[None]:
    """To see what the numbers are without any."""
    yield


ALL: Mapping[str, Trouble] = {"nothing": nothing, "slow_20_ms": slow_20_ms, **TROUBLES}


class Stage:
    """Everything that runs. ``house`` has Redis and the proxy alone."""

    def __init__(
        self,
        house: SharedHouse,
        replicas: OtherProcess,
        load: OtherProcess,
        gateways: Sequence[RunningGateway],
        client: httpx.AsyncClient,
    ) -> None:
        self._house = house
        self._replicas = replicas
        self._load = load
        self._gateways = gateways
        self._client = client
        self._redis = house.redis.client()
        self._words = ModelFolder().words
        self._marks: list[str] = []
        self._failures: list[str] = []

    async def warm_up(self) -> None:
        await self._load.do("go")
        await asyncio.sleep(_WARM_UP_S)
        await self._load.do("samples")

    async def play(self, trouble: Trouble, seconds: float, result: Result) -> None:
        """A while without, a while with it, and until all is well again."""
        await self._load.do("go")
        await asyncio.sleep(0.5)
        before = await self._match_counts()
        began_s = time.monotonic()
        await asyncio.sleep(seconds)
        between, lines = await self._match_counts(), self._lines()
        async with trouble(self._house):
            troubled_s = time.monotonic()
            await self._leave_marks(seconds)
            after = await self._match_counts()
        over_s = time.monotonic()
        await self._until_reader_matches()
        result.matches_s.append(time.monotonic() - over_s)
        await self._load.do("pause")
        await self._until_equal()
        result.equal_s.append(time.monotonic() - over_s)
        result.lines.append(self._lines() - lines)
        samples: list[Sample] = await self._load.do("samples")
        result.healthy += [sample for sample in samples if began_s <= sample.began_s < troubled_s and not sample.error]
        result.troubled += [sample for sample in samples if troubled_s <= sample.began_s < over_s and not sample.error]
        result.failures += [*self._failures, *(sample.error for sample in samples if sample.error)]
        self._failures.clear()
        add_counts(result.healthy_match, between, before)
        add_counts(result.troubled_match, after, between)

    async def _leave_marks(self, seconds: float) -> None:
        """Prompts that nobody but the gateway that follows the events ever hears of."""
        self._marks.clear()
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            prompt = " ".join(Random(time.monotonic()).choices(self._words, k=_MARK_WORDS))
            await self._ask(0, prompt)
            self._marks.append(prompt)
            await asyncio.sleep(_MARK_EVERY_S)

    async def _until_reader_matches(self) -> None:
        until_s = time.monotonic() + _GIVEN_UP_S
        while time.monotonic() < until_s:
            for prompt in self._marks:
                answer = await self._ask(READER, prompt)
                if answer is not None and matched(answer) == cached(answer) > 0:
                    return
                await asyncio.sleep(0.05)

    async def _until_equal(self) -> None:
        truth: dict[str, set[bytes]] = await self._replicas.do("truth")
        until_s = time.monotonic() + _GIVEN_UP_S
        while any(self._held(id_) != held | {b"@"} for id_, held in truth.items()):
            if time.monotonic() > until_s:
                return
            await asyncio.sleep(0.02)

    def _held(self, id_: str) -> set[Any]:
        keys = Keys()
        entry = self._redis.hget(keys.registry(MODEL), f"r:{id_}")
        if not isinstance(entry, bytes):
            return set()
        return set(self._redis.smembers(keys.blocks(ReplicaKey(MODEL, id_), int(entry.split(b" ")[0]), Tier.L0)))

    async def _ask(self, gateway: int, prompt: str) -> httpx.Response | None:
        """``None``, and a failure noted, where it is not answered well."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
        try:
            answer = await self._client.post(f"{self._gateways[gateway].url}/v1/completions", json=body)
            return answer.raise_for_status()
        except httpx.HTTPError as error:
            self._failures.append(repr(error))
            return None

    async def _match_counts(self) -> Counts:
        """Of the reader's decisions so far, by upper bound."""
        text = (await self._client.get(f"{self._gateways[READER].metrics_url}/metrics")).text
        counts: Counts = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "prefixway_decision_match_seconds_bucket":
                    bound = float(sample.labels["le"])
                    counts[bound] = counts.get(bound, 0) + sample.value
        return counts

    def _lines(self) -> int:
        return sum(len(gateway.log.read_text().splitlines()) for gateway in self._gateways)


@asynccontextmanager
async def stage(budget_ms: str) -> AsyncIterator[Stage]:
    """Everything started, and warm."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer("valkey-9"))
        proxy = await stack.enter_async_context(TcpProxy(redis.port))
        replicas = await stack.enter_async_context(OtherProcess(run_replicas))
        urls: list[str] = await replicas.do("urls")
        block = stack.enter_context(ExitStack())
        gateways = [
            await asyncio.to_thread(block.enter_context, _gateway(urls, proxy.port, indexer, budget_ms))
            for indexer in ("inside", "outside")
        ]
        for gateway in gateways:
            await asyncio.to_thread(gateway.wait, lambda gateway=gateway: _is_acquainted(gateway.status()))
        load = await stack.enter_async_context(OtherProcess(put_load, [gateway.url for gateway in gateways]))
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
        yield Stage(SharedHouse(redis, proxy, {}, stack), replicas, load, gateways, client)


def _gateway(
    replicas: Sequence[str], redis_port: int, indexer: str, budget_ms: str
) -> AbstractContextManager[RunningGateway]:
    return running_gateway(
        replicas,
        redis_url=f"redis://127.0.0.1:{redis_port}",
        indexer=indexer,
        index_budget_ms=budget_ms,
        hash_secret=_SECRET,
        access_log="false",
        log_level="info",
        probe_interval_s="0.5",
    )


def _is_acquainted(status: dict[str, Any]) -> bool:
    return sum(bool(replica["healthy"]) for replica in status["replicas"]) == len(_REPLICAS) and bool(status["models"])


async def run(names: Sequence[str], rounds: int, seconds: float, budget_ms: str) -> None:
    results = {name: Result() for name in names}
    async with stage(budget_ms) as on:
        await on.warm_up()
        for number in range(1, rounds + 1):
            for name in names:
                began_s = time.monotonic()
                await on.play(ALL[name], seconds, results[name])
                print(f"  round {number}, {name}: {time.monotonic() - began_s:.0f} s", flush=True)
    print(table(results))
    for name, result in results.items():
        for failure in sorted(set(result.failures)):
            print(f"{name}: {failure}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", action="append", choices=ALL, default=[])
    parser.add_argument("--budget-ms", default="5")
    options = parser.parse_args()
    uvloop.run(run(options.only or list(ALL), options.rounds, options.seconds, options.budget_ms))


if __name__ == "__main__":
    main()
