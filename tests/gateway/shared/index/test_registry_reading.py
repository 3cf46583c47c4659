"""Registries are read in the background, and only where they changed."""

from __future__ import annotations

import logging

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.registry_reading import RegistryReading
from gateway.shared.link.redis_errors import RedisRefused
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.fakes.waiting import eventually
from tests.gateway.shared.index.redis_pair import SECRET_ID, RedisPair
from tests.gateway.shared.link.links import linked

A, B, OTHER = ReplicaKey("m", "a"), ReplicaKey("m", "b"), ReplicaKey("n", "a")


async def written(link: RedisLink, *keys: ReplicaKey) -> RedisPair:
    """An index with a block of each."""
    pair = RedisPair(link)
    for key in keys:
        pair.begin(key, {Tier.L0: [1]})
    await pair.settle()
    return pair


def reading(pair: RedisPair, link: RedisLink, *namespaces: str) -> tuple[RegistryReading, RedisIndex]:
    """Another process's reading of what ``pair`` writes."""
    index = RedisIndex(link, pair.keys, secret_id=lambda: SECRET_ID)
    return RegistryReading(link, index, lambda: namespaces, every_s=0.01), index


async def test_who_is_registered_becomes_known_without_a_request(link: RedisLink) -> None:
    """In every namespace of the fleet, and of no other."""
    pair = await written(link, A, B, OTHER)
    read, index = reading(pair, link, "m", "nobody's")

    await read.read()

    assert [index.entry(key) is not None for key in (A, B, OTHER)] == [True, True, False]


async def test_what_did_not_change_is_not_sent_again(link: RedisLink) -> None:
    """Who listens hears of changes only."""
    pair = await written(link, A)
    read, index = reading(pair, link, "m")
    heard: list[int] = []
    index.listen(lambda: heard.append(len(index.registries["m"].entries)))

    for _ in range(3):
        await read.read()
    pair.begin(B, {})
    await pair.settle()
    await read.read()

    assert heard == [1, 2]


async def test_a_fleet_without_replicas_asks_nothing(redis_server: RedisServer, link: RedisLink) -> None:
    """Not even whether there is anything."""
    pair = await written(link)
    read, _ = reading(pair, link)
    redis_server.client().config_resetstat()

    await read.read()

    assert "evalsha" not in redis_server.command_counts()


async def test_it_goes_on_when_redis_comes_back(redis_server: RedisServer) -> None:
    """What was written meanwhile is read then."""
    async with linked(redis_server.url, timeout_s=0.2) as link, linked(redis_server.url) as patient:
        pair = await written(patient, A)
        read, index = reading(pair, link, "m")
        async with running(read.run()):
            await eventually(lambda: index.entry(A))
            with redis_server.paused():
                await eventually(lambda: not link.is_up)
            pair.begin(B, {})
            await pair.settle()

            await eventually(lambda: index.entry(B))


async def test_a_registry_that_is_none_spoils_no_other(
    link: RedisLink, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's key: it is told, once, and the other namespaces are read."""
    pair = await written(link, OTHER)
    redis_server.client().set(pair.keys.registry("m"), "not a hash")
    read, index = reading(pair, link, "m", "n")

    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        await read.read()
    assert index.entry(OTHER)

    with caplog.at_level(logging.WARNING):
        async with running(read.run()):
            await eventually(lambda: redis_server.command_counts()["evalsha"] > 20)
    assert [record.getMessage()[:37] for record in caplog.records] == ["the index cannot be read: WRONGTYPE O"]
