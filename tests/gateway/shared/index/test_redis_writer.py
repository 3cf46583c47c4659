"""The writer, over real servers: what changes, and what Redis loses or refuses."""

from __future__ import annotations

import time

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import BLOCKS, A, B, RedisPair, tokens


async def test_what_a_flush_took_is_written_again(link: RedisLink, redis_server: RedisServer) -> None:
    """The next renewal notices, whether there are events or not."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    redis_server.client().flushall()
    assert await tokens(pair) is None

    pair.writer.renew_now()
    await pair.writer.round()
    await pair.settle()

    assert await tokens(pair) == 100 * 16
    assert pair.writer.stats.epochs == {"takeover": 1, "lost": 1}


@pytest.mark.parametrize("quiet", [True, False])
async def test_lost_writes_show_in_the_size_of_a_set(
    link: RedisLink, redis_server: RedisServer, *, quiet: bool
) -> None:
    """As after a failover: some members are missing. With the next write, or without one with the next renewal."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    await tokens(pair)
    entry = pair.reader.entry(A)
    assert entry is not None
    client, name = redis_server.client(), pair.keys.blocks(A, entry.epoch, Tier.L0)
    client.srem(name, *(member for member in client.sscan_iter(name) if member[:1] != b"@"))

    if quiet:
        pair.writer.renew_now()
    else:
        pair.apply(A, Tier.L0, [1], ())
    await pair.writer.round()
    await pair.settle()

    assert await tokens(pair) == 100 * 16
    assert pair.writer.stats.epochs["lost"] == 1


async def test_out_of_memory_is_told_and_overcome(link: RedisLink, redis_server: RedisServer) -> None:
    """Nothing that was refused is forgotten."""
    pair, client = RedisPair(link), redis_server.client()
    pair.begin(A, {Tier.L0: BLOCKS[:10]})
    pair.begin(B, {})
    await pair.settle()
    client.config_set("maxmemory", "1mb")
    try:
        pair.apply(A, Tier.L0, BLOCKS, BLOCKS[:1])
        pair.apply(B, Tier.L0, BLOCKS[:4], ())
        with pytest.raises(RedisRefused, match="OOM"):
            await pair.writer.round()
        assert pair.writer.stats.refused["OOM"] == 2
    finally:
        client.config_set("maxmemory", "0")

    pair.apply(A, Tier.L0, BLOCKS[:1], BLOCKS[60:])
    await pair.settle()

    assert (await tokens(pair), await tokens(pair, B)) == (60 * 16, 4 * 16)


async def test_what_cannot_be_written_now_is_written_later(redis_server: RedisServer) -> None:
    """Redis does not answer for a while; what happens meanwhile is kept, last word last."""
    target = RedisTarget.parse(redis_server.url)
    link = RedisLink(target, clock=time.monotonic, budget_s=5.0, timeout_s=0.2)
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS[:10]})
    await pair.settle()

    with redis_server.paused():
        pair.apply(A, Tier.L0, BLOCKS[10:], ())
        with pytest.raises(RedisUnavailable):
            await pair.writer.round()
        pair.apply(A, Tier.L0, (), BLOCKS[50:])
        with pytest.raises(RedisUnavailable):
            await pair.writer.round()

    await pair.settle()
    assert await tokens(pair) == 50 * 16
    await link.close()


async def test_something_else_in_a_sets_place_is_a_loss(link: RedisLink, redis_server: RedisServer) -> None:
    """With the next write, or without one with the next renewal: all is written anew, elsewhere."""
    pair, client = RedisPair(link), redis_server.client()
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    for change in (True, False):
        await tokens(pair)
        entry = pair.reader.entry(A)
        assert entry is not None
        client.set(pair.keys.blocks(A, entry.epoch, Tier.L0), "no set")
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            await tokens(pair)

        if change:
            pair.apply(A, Tier.L0, [1], ())
        else:
            pair.writer.renew_now()
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            await pair.writer.round()
        await pair.settle()

        assert await tokens(pair) == 100 * 16
    assert pair.writer.stats.epochs["lost"] == 2
    assert len(client.keys(f"{pair.keys.writer(A).removesuffix('writer')}*")) == 2  # lock and set: the odd ones went


@pytest.mark.parametrize("spoilt", ["registry", "epochs", "writer"])
async def test_what_is_refused_for_one_model_keeps_no_other_waiting(
    link: RedisLink, redis_server: RedisServer, spoilt: str
) -> None:
    """Somebody put something else where a model's keys must be. It is told, and heals when that has gone."""
    pair, client, other = RedisPair(link), redis_server.client(), ReplicaKey("b", "b")
    of = ReplicaKey("a", "a")
    name = {
        "registry": pair.keys.registry(of.namespace),
        "epochs": pair.keys.epochs(of.namespace),
        "writer": pair.keys.writer(of),
    }[spoilt]
    client.lpush(name, "no hash, no string")
    for key in (of, other):
        pair.begin(key, {Tier.L0: BLOCKS})
        pair.writer.claim(key)
    for _ in range(2):
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            await pair.writer.round()
    pair.apply(other, Tier.L0, [], BLOCKS[50:])
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        await pair.writer.round()

    assert (pair.writer.writes(of), pair.writer.writes(other)) == (False, True)
    assert await tokens(pair, other) == 50 * 16
    assert pair.writer.stats.refused["WRONGTYPE"] >= 3

    client.delete(name)
    await pair.settle()
    assert await tokens(pair, of) == 100 * 16


async def test_what_is_lost_again_and_again_is_written_ever_more_seldom(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """A server that evicts keys is not filled again and again; meanwhile nobody is told what may be wrong."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    client = redis_server.client()
    for lost in range(2):
        await tokens(pair)
        entry = pair.reader.entry(A)
        assert entry is not None
        assert pair.writer.stats.epochs["lost"] == lost
        client.srem(pair.keys.blocks(A, entry.epoch, Tier.L0), BLOCKS[3].to_bytes(8, "little"))
        for _ in range(3):
            pair.writer.renew_now()
            await pair.writer.round()

    assert pair.writer.stats.epochs["lost"] == 1
    assert await tokens(pair) is None
