"""What a large fleet asks of one Redis. ``python -m benchmarks.large_fleet``, about two minutes.

Everything is real but the replicas' caches, which hold random blocks: registry, sets, locks and scripts are those of
the product, on a Valkey on loopback. Measured is the time of the server, whose one thread is what a fleet shares:
per look-up, per block written, per second for locks and members; and what follows from it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import uvloop

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.redis_url import RedisTarget
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.index.registry import Details
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.processes.member_record import MemberRecord, replica_number
from gateway.shared.processes.members import Members
from tests.fakes.redis_servers import RedisServer

_BLOCK_TOKENS = 16
_CHAIN_BLOCKS = 512  # 8,192 tokens
_BLOCKS_PER_REPLICA = 8_192
_LOOKUPS = 200
_HASHED_UNDER = "benchmark"
_RENEWALS_PER_S = 1 / 0.375
_BEATS_PER_S = 2


class ServerTime(NamedTuple):
    """Microseconds of the server's thread, by command."""

    calls: Mapping[str, int]
    spent_us: Mapping[str, int]

    @property
    def total_us(self) -> int:
        return sum(self.spent_us.values())


class Caches:
    """Replicas, each with a cache of random blocks and for some of them a part of one common chain."""

    def __init__(self, replicas: int, seed: int = 7) -> None:
        rng = random.Random(seed)
        self.chain = [rng.getrandbits(64) for _ in range(_CHAIN_BLOCKS)]
        self.held = {ReplicaKey("model", f"replica-{n}"): self._blocks(n, rng) for n in range(replicas)}

    def owned(self, key: ReplicaKey) -> Mapping[Tier, Collection[int]]:
        return {Tier.L0: self.held[key]}

    def _blocks(self, number: int, rng: random.Random) -> set[int]:
        share = 1.0 if number == 0 else 0.5 if number % 8 == 0 else 0.0
        own = set(self.chain[: int(share * len(self.chain))])
        return own | {rng.getrandbits(64) for _ in range(_BLOCKS_PER_REPLICA - len(own))}


async def measure(server: RedisServer, replicas: int) -> None:
    """One size of fleet, in one namespace."""
    server.client().execute_command("FLUSHALL", "SYNC")
    link = RedisLink(RedisTarget.parse(server.url), clock=time.monotonic, budget_s=60, timeout_s=60)
    caches = Caches(replicas)
    index = RedisIndex(link, Keys(), secret_id=lambda: _HASHED_UNDER)
    writer = RedisWriter(
        link,
        Keys(),
        "benchmark",
        owned=caches.owned,
        details=lambda _, tiers: Details(_HASHED_UNDER, tiers=tuple(map(int, tiers))),
        storage=index.storage,
        lock_s=3600,
    )
    try:
        print(f"\n{replicas} replicas of one model, {_BLOCKS_PER_REPLICA:,} blocks each")
        await _fill(server, writer, caches)
        await _look_up(server, link, index, caches)
        await _churn(server, writer, caches)
        await _keep(server, link, writer, caches)
    finally:
        await link.close()


async def _fill(server: RedisServer, writer: RedisWriter, caches: Caches) -> None:
    before = server.client().info("memory")["used_memory"]
    began = time.perf_counter()
    for key in caches.held:
        writer.begin(key, {})
        writer.claim(key)
    while writer.is_busy:
        await writer.round()
    seconds = time.perf_counter() - began
    owners = sum(map(len, caches.held.values()))
    used = server.client().info("memory")["used_memory"] - before
    print(f"  written at first in {seconds:.2f} s; {used / 1e6:,.0f} MB, {used / owners:.0f} bytes a block-owner")


async def _look_up(server: RedisServer, link: RedisLink, index: RedisIndex, caches: Caches) -> None:
    index.registry_answered("model", await link.run(index.registry_call("model")))
    keys = list(caches.held)
    _reset(server)
    began = time.perf_counter()
    for _ in range(_LOOKUPS):
        await index.match({_BLOCK_TOKENS: caches.chain}, keys)
    took_ms = (time.perf_counter() - began) / _LOOKUPS * 1e3
    spent = _spent(server)
    server_ms = spent.total_us / _LOOKUPS / 1e3
    scripts = spent.calls["evalsha"] // _LOOKUPS
    print(
        f"  look-up of {_CHAIN_BLOCKS} blocks: {took_ms:.2f} ms, of which the server {server_ms:.2f} ms in {scripts} "
        f"scripts of {server_ms / scripts:.2f} ms: at most {1e3 / server_ms:,.0f} look-ups/s"
    )


async def _churn(server: RedisServer, writer: RedisWriter, caches: Caches) -> None:
    """Each replica stores and evicts 64 blocks between two writes."""
    rng = random.Random(1)
    _reset(server)
    rounds, per_round = 10, 64
    for _ in range(rounds):
        for key, held in caches.held.items():
            removed = [held.pop() for _ in range(per_round)]
            stored = [rng.getrandbits(64) for _ in range(per_round)]
            held.update(stored)
            writer.apply(key, Tier.L0, stored, removed)
        await writer.round()
    blocks = rounds * per_round * 2 * len(caches.held)
    spent_us = _spent(server).total_us / blocks
    print(f"  events: {spent_us:.2f} us of the server a block: at most {1e6 / spent_us:,.0f} blocks/s")


async def _keep(server: RedisServer, link: RedisLink, writer: RedisWriter, caches: Caches) -> None:
    """What it costs that nothing happens."""
    _reset(server)
    for _ in range(5):
        writer.renew_now()
        await writer.round()
    locks = _spent(server).total_us / 5 * _RENEWALS_PER_S / 1e6
    processes = max(2, len(caches.held) // 50)
    members = [_member(number, caches.held) for number in range(processes)]
    for each in members:
        each.answered(await link.run(each.command()))
    _reset(server)
    for each in members:
        each.answered(await link.run(each.command()))
    beats = _spent(server).total_us * _BEATS_PER_S / 1e6
    print(
        f"  locks {locks:.1%} of the server's time; {processes} processes that tell each other who they are {beats:.1%}"
    )


def _member(number: int, keys: Collection[ReplicaKey]) -> Members:
    record = MemberRecord(f"{number:016x}", name=f"host-{number}:1", replicas={replica_number(key): 1 for key in keys})
    return Members(Keys(), lambda: record, clock=time.monotonic, dead_after_s=3600)


def _reset(server: RedisServer) -> None:
    server.client().config_resetstat()


def _spent(server: RedisServer) -> ServerTime:
    """Without what runs inside scripts, which is in theirs."""
    stats = server.client().info("commandstats")
    outer = ("evalsha", "eval", "publish", "unlink")
    inside_scripts = "evalsha" in {name.removeprefix("cmdstat_") for name in stats}
    names: Sequence[str] = [
        name
        for name in (full.removeprefix("cmdstat_") for full in stats)
        if name in outer or (not inside_scripts and name in ("sadd", "srem", "expire", "scard"))
    ]
    by_name = {name: stats[f"cmdstat_{name}"] for name in names}
    return ServerTime(
        {name: row["calls"] for name, row in by_name.items()}, {name: row["usec"] for name, row in by_name.items()}
    )


async def main() -> None:
    with RedisServer("valkey-9") as server:
        for replicas in (64, 256, 1000):
            await measure(server, replicas)


if __name__ == "__main__":
    uvloop.run(main())
