"""What is asked of Redis, and how often. What is answered is the behaviour suite's business."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier, TierTokens
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.registry import Details
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import ScriptCall
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.shared.index.redis_pair import SECRET_ID, RedisPair
from tests.gateway.shared.link.links import linked

A, B, OTHER = ReplicaKey("m", "a"), ReplicaKey("m", "b"), ReplicaKey("n", "a")
BLOCKS = list(range(40))


async def test_one_round_trip_whatever_there_is(link: RedisLink, redis_server: RedisServer) -> None:
    """Of one namespace: all replicas, tiers and block sizes in one script."""
    pair = RedisPair(link)
    for key in (A, B):
        pair.begin(key, {Tier.L0: BLOCKS, Tier.L1: BLOCKS[:9], Tier.L2: BLOCKS[:20]})
    await pair.match({16: BLOCKS, 64: BLOCKS}, [A, B])
    redis_server.client().config_resetstat()

    found = await pair.reader.match({16: BLOCKS, 64: BLOCKS}, [A, B])

    assert found[B] == TierTokens(40 * 64, 9 * 64, 20 * 64)
    assert redis_server.command_counts()["evalsha"] == 1


async def test_an_unregistered_replica_is_not_asked_for(link: RedisLink, redis_server: RedisServer) -> None:
    """Nor is anything where no replica is registered."""
    pair = RedisPair(link)
    await pair.read_registries(["m"])
    redis_server.client().config_resetstat()

    assert await pair.reader.match({16: BLOCKS}, [A, OTHER]) == {}

    assert "evalsha" not in redis_server.command_counts()


async def test_each_namespace_is_asked_by_itself(link: RedisLink) -> None:
    """They may lie on different servers of a cluster."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    pair.begin(OTHER, {Tier.L0: BLOCKS[:2]})

    found = await pair.match({16: BLOCKS}, [A, OTHER])

    assert {key: tokens.l0 for key, tokens in found.items()} == {A: 640, OTHER: 32}


async def test_much_of_the_host_tier_is_asked_for_in_parts(link: RedisLink, redis_server: RedisServer) -> None:
    """Walked block by block, 20 replicas with 8,192 blocks would hold the server for long."""
    pair, chain = RedisPair(link), list(range(8192))
    keys = [ReplicaKey("m", f"r{number}") for number in range(20)]
    for key in keys:
        pair.begin(key, {Tier.L0: chain[:5], Tier.L1: chain})
    await pair.match({16: chain}, keys)
    redis_server.client().config_resetstat()

    found = await pair.reader.match({16: chain}, keys)

    assert {found[key] for key in keys} == {TierTokens(80, 8192 * 16, None)}
    assert redis_server.command_counts()["evalsha"] > 5


async def test_entries_under_another_secret_are_not_credited(link: RedisLink) -> None:
    """Their hashes could only match by chance."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    stranger = RedisIndex(link, pair.keys, secret_id=lambda: "another")
    stranger.registry_answered("m", await link.run(stranger.registry_call("m")))

    assert await stranger.match({16: BLOCKS}, [A]) == {}
    assert stranger.registries["m"].foreign.keys() == {"a"}


async def test_who_listens_hears_of_each_change_once(link: RedisLink) -> None:
    """A registry that is as it was is no change."""
    pair, heard = RedisPair(link), list[str]()
    pair.reader.listen(lambda: heard.append("changed"))
    pair.begin(A, {})
    await pair.settle()
    before = len(heard)
    for _ in range(3):
        await pair.read_registries(["m"])
    assert len(heard) == before + 1

    pair.reader.forget_registries()
    await pair.read_registries(["m"])
    assert len(heard) == before + 2


async def test_a_registry_that_changes_without_end_is_given_up() -> None:
    """The request goes on without it."""

    class Restless:
        calls = 0

        async def ask_all(self, calls: Sequence[ScriptCall], *, spent_s: float = 0.0) -> list[Any]:
            self.calls += 1
            return [[b"stale", _registry(b"%d" % self.calls)]]

    restless = Restless()
    index = RedisIndex(restless, Keys(), secret_id=lambda: "s")
    index.registry_call("m")
    index.registry_answered("m", _registry(b"0"))

    with pytest.raises(RedisUnavailable, match="changes"):
        await index.match({16: BLOCKS}, [A])

    assert restless.calls == 2


async def test_a_stale_registry_costs_no_second_budget(link: RedisLink, redis_server: RedisServer) -> None:
    """An answer comes in time, the one after it would not any more: the request goes on without it."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    async with (
        TcpProxy(redis_server.port) as proxy,
        linked(f"redis://127.0.0.1:{proxy.port}", budget_s=0.3) as slow,
    ):
        index = RedisIndex(slow, pair.keys, secret_id=lambda: SECRET_ID)
        index.registry_answered("m", await slow.run(index.registry_call("m")))
        assert (await index.match({16: BLOCKS}, [A]))[A].l0 == 40 * 16
        pair.writer.details_changed(A)
        pair.block_sizes[0] = 16
        await pair.settle()

        proxy.delay(0.2)
        with pytest.raises(RedisUnavailable, match="budget"):
            await index.match({16: BLOCKS}, [A])


def _registry(version: bytes) -> Sequence[bytes]:
    return [b"v", version, b"r:a", b"1 " + Details("s").encode()]


async def test_a_thousand_replicas_never_hold_the_server(link: RedisLink, redis_server: RedisServer) -> None:
    """Each gets its own answer. They are asked for in pieces, and a piece looks at few blocks of each."""
    pair, chain = RedisPair(link), list(range(512))
    keys = [ReplicaKey("m", f"10.0.{number // 250}.{number % 250}:8000") for number in range(1_000)]
    for number, key in enumerate(keys):
        pair.begin(key, {Tier.L0: chain[: number % 500]})
    await pair.match({16: chain}, keys)
    redis_server.client().config_resetstat()

    found = await pair.reader.match({16: chain}, keys)

    assert [found[key].l0 for key in keys] == [16 * (number % 500) for number in range(1_000)]
    counts = redis_server.command_counts()
    assert counts["evalsha"] >= 8
    looks = counts["sismember"] + counts["smismember"]
    assert looks / counts["evalsha"] < 125 * 18  # first block, gallop and bisection over 512 blocks
