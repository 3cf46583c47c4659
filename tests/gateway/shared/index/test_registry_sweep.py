"""What is left of replicas whose writers died."""

from __future__ import annotations

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.registry import Details
from gateway.shared.index.registry_sweep import RegistrySweep
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import RedisPair

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")


async def test_only_what_nobody_writes_and_nothing_is_left_of_is_struck_off(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """A lock that lapsed is no proof of death, nor is a set that is gone: somebody may be about to write it again."""
    pair, client = RedisPair(link), redis_server.client()
    for key in (A, B):
        pair.begin(key, {Tier.L0: range(10)})
    await pair.settle()
    await pair.read_registries(["m"])
    sweep = RegistrySweep(link, pair.keys, pair.reader)
    entry = pair.reader.entry(A)
    assert entry is not None

    for name in (pair.keys.writer(A), pair.keys.blocks(A, entry.epoch, Tier.L0)):
        await sweep.sweep()
        assert client.hexists(pair.keys.registry("m"), "r:a")
        client.delete(name)
    await sweep.sweep()

    await pair.read_registries(["m"])
    assert list(pair.reader.registries["m"].entries) == ["b"]


async def test_what_is_left_under_another_secret_is_struck_off_too(link: RedisLink, redis_server: RedisServer) -> None:
    """Its writers are gone: nobody is to be warned of it for ever."""
    pair, client = RedisPair(link), redis_server.client()
    client.hset(pair.keys.registry("m"), mapping={"v": "1", "r:a": b"1 " + Details("of old").encode()})
    await pair.read_registries(["m"])
    assert set(pair.reader.registries["m"].foreign) == {"a"}

    await RegistrySweep(link, pair.keys, pair.reader).sweep()

    await pair.read_registries(["m"])
    assert not pair.reader.registries["m"].foreign


async def test_a_replica_whose_writer_died_is_blind(link: RedisLink, redis_server: RedisServer) -> None:
    """Its sets lapsed: the first look-up notices."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: range(10)})
    assert (await pair.match({16: list(range(10))}, [A]))[A].l0 == 160
    entry = pair.reader.entry(A)
    assert entry is not None
    assert not entry.has_lapsed
    redis_server.client().delete(pair.keys.blocks(A, entry.epoch, Tier.L0))

    assert await pair.reader.match({16: list(range(10))}, [A]) == {}
    assert entry.has_lapsed
