"""What the index in Redis costs. ``python -m benchmarks.shared_index``, about a minute.

Everything beside the layout that others use (see ``benchmarks.naive_index``), in the same run on the same server: a
Valkey on loopback, one client process, the real link, medians. To hold: 0.2-0.5 ms for a look-up of 2,048 blocks
among 8 replicas, 150k blocks/s from decoded events to Redis, 70 bytes of Redis a block-owner.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from statistics import median, quantiles
from typing import NamedTuple

import uvloop

from benchmarks.kv import payloads
from benchmarks.naive_index import NaiveIndex
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import decode
from gateway.kv.tiers import Tier
from gateway.redis_url import RedisTarget
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.index.registry import Details
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer

_BLOCK_TOKENS = 16
_BLOCKS_PER_REPLICA = 32_768
_HASHED_UNDER = "benchmark"
_ASKERS = 16
_INGESTED = 60_000


class Fleet:
    """Replicas, what they hold, and both layouts of it in one Redis."""

    def __init__(self, link: RedisLink) -> None:
        self.held: dict[ReplicaKey, set[int]] = {}
        self.index = RedisIndex(link, Keys(), secret_id=lambda: _HASHED_UNDER)
        self.naive = NaiveIndex(link)
        self.writer = RedisWriter(
            link,
            Keys(),
            "benchmark",
            owned=self._owned,
            details=lambda _, tiers: Details(_HASHED_UNDER, tiers=tuple(map(int, tiers))),
            storage=self.index.storage,
            lock_s=600,
        )
        self._link = link

    def add(self, replicas: int, chain: list[int], rng: random.Random) -> None:
        """One holds all of ``chain``, one 60 %, one in four a quarter; the rest of their caches is their own."""
        for number in range(len(self.held), replicas):
            share = {0: 1.0, 1: 0.6}.get(number, 0.25 if number % 4 == 0 else 0.0)
            own = set(chain[: int(share * len(chain))])
            while len(own) < _BLOCKS_PER_REPLICA:
                own.add(rng.getrandbits(64))
            key = ReplicaKey("model", f"replica-{number}")
            self.held[key] = own
            self.writer.begin(key, {})

    async def write_all(self) -> None:
        for key in self.held:
            self.writer.claim(key)
        while self.writer.is_busy:
            await self.writer.round()
        self.index.registry_answered("model", await self._link.run(self.index.registry_call("model")))

    async def write_all_naively(self) -> None:
        for key, blocks in self.held.items():
            await self.naive.write(key.replica_id, blocks, ())

    def _owned(self, key: ReplicaKey) -> Mapping[Tier, Collection[int]]:
        return {Tier.L0: self.held[key]}


class Timing(NamedTuple):
    """Milliseconds, and look-ups a second with several askers at once."""

    p50_ms: float
    p99_ms: float
    per_s: float

    def words(self) -> str:
        return f"{self.p50_ms:6.2f} ms, p99 {self.p99_ms:6.2f}, {self.per_s:6,.0f}/s"


async def run(server: RedisServer) -> None:
    link = RedisLink(RedisTarget.parse(server.url), clock=time.monotonic, budget_s=60, timeout_s=60)
    rng = random.Random(7)
    chain = [rng.getrandbits(64) for _ in range(2048)]
    fleet = Fleet(link)
    try:
        for replicas in (8, 64):
            await _measure_fleet(server, fleet, replicas, chain, rng)
        await _ingest(link)
    finally:
        await link.close()


async def _measure_fleet(
    server: RedisServer, fleet: Fleet, replicas: int, chain: list[int], rng: random.Random
) -> None:
    client = server.client()
    fleet.add(replicas, chain, rng)
    owners = sum(map(len, fleet.held.values()))
    client.execute_command("FLUSHALL", "SYNC")
    for key in fleet.held:
        fleet.writer.begin(key, {})
    before, naive_s = client.info("memory")["used_memory"], await _timed(fleet.write_all_naively)
    naive_bytes = (client.info("memory")["used_memory"] - before) / owners
    client.execute_command("FLUSHALL", "SYNC")
    before, sets_s = client.info("memory")["used_memory"], await _timed(fleet.write_all)
    set_bytes = (client.info("memory")["used_memory"] - before) / owners
    print(f"\n{replicas} replicas x {_BLOCKS_PER_REPLICA} blocks")
    print(f"  memory, bytes a block-owner: {set_bytes:6.1f}   a hash a block {naive_bytes:6.1f}")
    print(f"  written anew after a flush:  {sets_s:6.2f} s a hash a block {naive_s:6.2f} s")
    await fleet.write_all_naively()
    keys = list(fleet.held)
    ids = [key.replica_id for key in keys]
    for blocks in (128, 512, 2048):
        asked = chain[:blocks]
        sets = await _timing(lambda asked=asked: fleet.index.match({_BLOCK_TOKENS: asked}, keys), 300)  # type: ignore[misc]
        naive = await _timing(lambda asked=asked: fleet.naive.match(asked, ids), 20)  # type: ignore[misc]
        print(f"  look-up of {blocks:5} blocks: {sets.words()}   a hash a block {naive.words()}")


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _timing(ask: Callable[[], Awaitable[object]], times: int) -> Timing:
    alone = [await _timed(ask) * 1e3 for _ in range(times)]

    async def several() -> None:
        for _ in range(times // _ASKERS + 1):
            await ask()

    async def together() -> None:
        async with asyncio.TaskGroup() as askers:
            for _ in range(_ASKERS):
                askers.create_task(several())

    seconds = await _timed(together)
    return Timing(median(alone), quantiles(alone, n=100)[98], _ASKERS * (times // _ASKERS + 1) / seconds)


async def _ingest(link: RedisLink) -> None:
    """From a batch's bytes to Redis: decoded, resolved, counted, coalesced, written."""
    print("\nevents, blocks/s from decoding to Redis; each block stored evicts another")
    for blocks_per_event, label in ((125, "prompts of 125 blocks"), (1, "decoding, a batch a block")):
        rates = [await _ingest_once(link, blocks_per_event, seed) for seed in range(3)]
        naive = await _ingest_naively(link, blocks_per_event)
        print(f"  {label}: {median(rates):9,.0f}   a hash a block, a pipeline a batch {naive:9,.0f}")


async def _ingest_once(link: RedisLink, blocks_per_event: int, seed: int) -> float:
    key = ReplicaKey("model", f"ingest-{blocks_per_event}-{seed}")
    batches = list(payloads(blocks_per_event, _INGESTED, seed))
    fleet = Fleet(link)
    fleet.held[key] = set()
    fleet.writer.begin(key, {})
    await fleet.write_all()
    applier = Applier(key, fleet.writer, secret=b"secret", block_size_seen=lambda *_: None)
    began = time.perf_counter()
    per_round = max(1, 1000 // blocks_per_event)
    for at in range(0, len(batches), per_round):
        for payload in batches[at : at + per_round]:
            applier.apply(decode(payload))
        await fleet.writer.round()
    seconds = time.perf_counter() - began
    if fleet.writer.stats.epochs["lost"]:
        sys.exit("the sets were not what they must be")
    return _INGESTED / seconds


class _Naively:
    """An IndexWriter that keeps what one batch changes."""

    def __init__(self) -> None:
        self.changes: list[tuple[list[int], list[int]]] = []

    def apply(self, _key: ReplicaKey, _tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        self.changes.append((list(stored), list(removed)))

    def clear(self, _key: ReplicaKey, _tier: Tier) -> None: ...

    def begin(self, _key: ReplicaKey, _snapshot: object) -> None: ...

    def drop(self, _key: ReplicaKey) -> None: ...


async def _ingest_naively(link: RedisLink, blocks_per_event: int) -> float:
    total = _INGESTED // 3
    batches = list(payloads(blocks_per_event, total, 9))
    changes, naive = _Naively(), NaiveIndex(link)
    applier = Applier(
        ReplicaKey("model", "naive"),
        changes,
        secret=b"secret",
        block_size_seen=lambda *_: None,
    )
    began = time.perf_counter()
    for payload in batches:
        applier.apply(decode(payload))
        for stored, removed in changes.changes:
            await naive.write("naive", stored, removed)
        changes.changes.clear()
    return total / (time.perf_counter() - began)


def main() -> None:
    with RedisServer("valkey-9") as server:
        uvloop.run(run(server))


if __name__ == "__main__":
    main()
