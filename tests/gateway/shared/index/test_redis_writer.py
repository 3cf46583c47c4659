"""The writer, over real servers: epochs, locks, losses."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import RedisPair

A, B = ReplicaKey("org/model {1}", "a:8000"), ReplicaKey("org/model {1}", "b")
BLOCKS = list(range(1000, 1100))
CHAINS = {16: BLOCKS}


@pytest.fixture
async def other_link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    link = RedisLink(RedisTarget.parse(redis_server.url), clock=time.monotonic, budget_s=5.0, timeout_s=10.0)
    yield link
    await link.close()


async def tokens(pair: RedisPair, key: ReplicaKey = A) -> int | None:
    """What a reader sees, without writing anything."""
    await pair.read_registries([key.namespace])
    found = await pair.reader.match(CHAINS, [key])
    return found[key].l0 if key in found else None


async def test_only_the_holder_of_the_lock_writes(link: RedisLink, other_link: RedisLink) -> None:
    """The other one knows the same and takes over, with all it knows, when the lock is given back."""
    one, two = RedisPair(link, "one"), RedisPair(other_link, "two")
    for pair in (one, two):
        pair.begin(A, {Tier.L0: BLOCKS[:50]})
        await pair.settle()

    assert (one.writer.writes(A), two.writer.writes(A)) == (True, False)
    two.apply(A, Tier.L0, BLOCKS, ())
    await two.settle()
    assert await tokens(two) == 50 * 16

    await one.writer.finish()
    await two.settle()
    assert (one.writer.writes(A), two.writer.writes(A)) == (False, True)
    assert await tokens(one) == 100 * 16


async def test_a_writer_that_slept_cannot_write_into_a_newer_epoch(
    link: RedisLink, other_link: RedisLink, redis_server: RedisServer
) -> None:
    """Its lock ran out, another took over; what it still writes nobody reads, and then it notices."""
    one, two = RedisPair(link, "one"), RedisPair(other_link, "two")
    one.begin(A, {Tier.L0: BLOCKS})
    await one.settle()
    redis_server.client().delete(one.keys.writer(A))  # it lapsed
    two.begin(A, {Tier.L0: BLOCKS[:10]})
    await two.settle()

    one.apply(A, Tier.L0, [], BLOCKS[5:])
    await one.writer.round()
    assert await tokens(two) == 10 * 16

    one.writer.renew_now()
    await one.writer.round()
    assert not one.writer.writes(A)
    assert one.writer.stats.locks_lost == 1
    assert await tokens(two) == 10 * 16


async def test_a_registration_that_comes_too_late_is_refused(
    link: RedisLink, other_link: RedisLink, redis_server: RedisServer
) -> None:
    """Between its snapshot and its registration another process got the lock and a newer epoch."""
    one, two = RedisPair(link, "one"), RedisPair(other_link, "two")
    one.begin(A, {Tier.L0: BLOCKS})
    await one.settle()
    epoch = one.reader.entry(A)
    redis_server.client().delete(one.keys.writer(A))
    two.begin(A, {Tier.L0: BLOCKS[:10]})
    await two.settle()

    one.writer.details_changed(A)
    await one.writer.round()

    assert await tokens(two) == 10 * 16
    newer = two.reader.entry(A)
    assert epoch is None or (newer is not None and newer.epoch > epoch.epoch)
    assert not one.writer.writes(A)


async def test_readers_of_the_old_epoch_are_sent_to_the_new_one(link: RedisLink) -> None:
    """A registry that is out of date costs a second round trip, never a wrong answer."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    pair.begin(B, {Tier.L0: BLOCKS[:3]})
    await pair.settle()
    assert await tokens(pair) == 100 * 16

    pair.begin(A._replace(incarnation=1), {Tier.L0: BLOCKS[:7]})
    while pair.writer.is_busy:
        await pair.writer.round()

    found = await pair.reader.match(CHAINS, [A, B])
    assert {key: held.l0 for key, held in found.items()} == {A: 7 * 16, B: 3 * 16}


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


async def test_a_dropped_replica_leaves_nothing_in_redis(link: RedisLink, redis_server: RedisServer) -> None:
    """No set, no entry, no lock: only the namespace's own two keys."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS, Tier.L1: BLOCKS})
    await pair.settle()
    client = redis_server.client()
    assert len(client.keys()) == 5

    pair.drop(A)
    await pair.settle()

    assert sorted(client.keys()) == sorted(
        name.encode() for name in (pair.keys.registry(A.namespace), pair.keys.epochs(A.namespace))
    )
    assert client.hkeys(pair.keys.registry(A.namespace)) == [b"v"]


async def test_every_key_has_a_life_that_its_writer_renews(link: RedisLink, redis_server: RedisServer) -> None:
    """So that nothing of a process that died stays for ever; and nobody walks over all keys."""
    pair, client = RedisPair(link), redis_server.client()
    client.config_resetstat()
    pair.begin(A, {Tier.L0: BLOCKS, Tier.L1: BLOCKS})
    await pair.settle()
    pair.apply(A, Tier.L2, BLOCKS, ())
    pair.clear(A, Tier.L0)
    await pair.settle()
    await tokens(pair)
    used = set(redis_server.command_counts())
    names = client.keys()
    for name in names:
        if name != pair.keys.epochs(A.namespace).encode():
            client.pexpire(name, 3_000)
    pair.writer.renew_now()
    await pair.writer.round()

    assert len(names) == 6
    assert all(client.pttl(name) > 3_000 or name == pair.keys.writer(A).encode() for name in names)
    assert not used & {"keys", "scan", "sscan", "flushall", "flushdb", "smembers", "del"}


async def test_a_large_snapshot_never_holds_the_server(link: RedisLink, redis_server: RedisServer) -> None:
    """100,000 blocks, written, read and dropped. The machine's noise makes some commands slow, not most of a kind."""
    pair, client = RedisPair(link), redis_server.client()
    blocks = range(100_000)
    for _ in range(5):
        client.config_resetstat()
        pair.begin(A, {Tier.L0: blocks})
        with redis_server.slow_commands() as slow:
            await pair.settle()
            for held in range(8192, 8202):
                found = await pair.match({16: blocks[:held]}, [A])
                assert found[A].l0 == held * 16
            pair.drop(A)
            await pair.settle()
        calls = redis_server.command_counts()
        names = Counter(entry.split()[0].lower() for entry in slow)
        culprits = [name for name, times in names.items() if times > calls[name] / 2]
        if not culprits:
            return
    pytest.fail(f"slow in every try: {culprits}, {slow}")


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


async def test_what_could_not_be_told_of_a_feed_is_told_later(link: RedisLink, redis_server: RedisServer) -> None:
    """A tier that the replica tells of for the first time while Redis is out of memory."""
    pair, client = RedisPair(link), redis_server.client()
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    client.config_set("maxmemory", "1mb")
    try:
        pair.apply(A, Tier.L1, BLOCKS[:3], ())
        with pytest.raises(RedisRefused, match="OOM"):
            await pair.writer.round()
    finally:
        client.config_set("maxmemory", "0")
    await pair.settle()

    await pair.read_registries([A.namespace])
    assert (await pair.reader.match(CHAINS, [A]))[A].a1 == 3 * 16


async def test_an_epoch_from_the_future_in_the_registry_is_replaced(link: RedisLink, redis_server: RedisServer) -> None:
    """The clock of the server went back, and what it gave out last was evicted: one new epoch is enough."""
    pair, client = RedisPair(link), redis_server.client()
    client.hset(pair.keys.registry(A.namespace), f"r:{A.replica_id}", b"4000000000000000 garbage")
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()

    assert await tokens(pair) == 100 * 16
    assert pair.writer.stats.epochs == {"takeover": 1}
    assert pair.writer.stats.locks_lost == 0


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
