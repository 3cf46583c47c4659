"""The writer's locks and epochs, over real servers."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.kv.tiers import Tier
from gateway.shared.link.redis_errors import RedisRefused
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import BLOCKS, CHAINS, A, B, RedisPair, tokens


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
