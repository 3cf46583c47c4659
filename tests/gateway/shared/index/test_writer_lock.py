"""Who may write, and in which epoch: whatever happens to the clock, the lock or the keys around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.registry import Details
from gateway.shared.index.writer_lock import ENTRY_S, SETS_S, Renewal, WriterLock, renewal
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer

KEYS = Keys("test")
A = ReplicaKey("org/model {1}", "a:5#1", 2)
DETAILS = Details("s")
FUTURE = 4_000_000_000_000_000  # microseconds: the year 2096


def lock(process: str, key: ReplicaKey = A, **options: float) -> WriterLock:
    return WriterLock(KEYS, key, process, **{"lock_s": 60.0} | options)


async def epoch(link: RedisLink, of: WriterLock) -> int:
    """A new one, which it must get."""
    return int(await link.run(of.acquire()))


def registered(server: RedisServer) -> Sequence[bytes]:
    """The words of the replica's entry."""
    entry: Any = server.client().hget(KEYS.registry(A.namespace), f"r:{A.replica_id}")
    return () if entry is None else entry.split(b" ", 1)


async def test_one_holds_it_and_gets_a_higher_epoch_each_time(link: RedisLink) -> None:
    """The other one gets nothing; another replica's lock is another lock, and its epochs are higher too."""
    one, two = lock("one"), lock("two")

    first, second = await epoch(link, one), await epoch(link, one)

    assert second > first
    assert await link.run(two.acquire()) is None
    assert await epoch(link, lock("two", A._replace(rank=0))) > second


async def test_who_lost_the_lock_registers_and_releases_nothing(link: RedisLink, redis_server: RedisServer) -> None:
    """It says so, and what is there stays."""
    one, two = lock("one"), lock("two")
    old = await epoch(link, one)
    redis_server.client().delete(KEYS.writer(A))
    new = await epoch(link, two)
    assert await link.run(two.register(new, DETAILS)) == b"0"

    assert await link.run(one.register(old, DETAILS)) is None
    assert renewal(await link.run(one.renew(old, [Tier.L0]))) == Renewal(False, False, [])
    assert await link.run(one.release(old, forget=True)) == 0
    assert registered(redis_server)[0] == b"%d" % new
    assert redis_server.client().get(KEYS.writer(A)) == b"two"


async def test_a_late_registration_in_an_older_epoch_is_refused_to_the_holder_too(link: RedisLink) -> None:
    """Two tries of the same process are told apart as two processes are."""
    one = lock("one")
    old, new = await epoch(link, one), await epoch(link, one)

    assert await link.run(one.register(new, DETAILS)) == b"0"
    assert await link.run(one.register(old, DETAILS)) is None
    assert await link.run(one.register(new, DETAILS)) == b"%d" % new


async def test_renewing_keeps_everything_alive_and_tells_what_there_is(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """The sizes of its sets, and whether somebody wants to take over."""
    one, client = lock("one"), redis_server.client()
    number = await epoch(link, one)
    await link.run(one.register(number, DETAILS))
    sets = [KEYS.blocks(A, number, tier) for tier in (Tier.L0, Tier.L1)]
    client.sadd(sets[0], "@", "x")
    client.expire(sets[0], 3)
    client.pexpire(KEYS.writer(A), 900)
    client.set(KEYS.wanted(A), "1")

    answer = renewal(await link.run(one.renew(number, [Tier.L0, Tier.L1])))

    assert answer == Renewal(True, True, [2, 0])
    assert client.pttl(KEYS.writer(A)) > 50_000
    assert [client.ttl(name) for name in (KEYS.registry(A.namespace), sets[0])] == [ENTRY_S, SETS_S]


async def test_a_lock_that_only_lapsed_is_taken_up_again(link: RedisLink, redis_server: RedisServer) -> None:
    """Nobody took it, and the epoch in force is still ours: nothing has to be written anew. Not so after a flush."""
    one, client = lock("one"), redis_server.client()
    number = await epoch(link, one)
    await link.run(one.register(number, DETAILS))
    client.delete(KEYS.writer(A))

    assert renewal(await link.run(one.renew(number, []))).held
    assert client.get(KEYS.writer(A)) == b"one"
    client.flushall()
    assert not renewal(await link.run(one.renew(number, []))).held
    assert client.get(KEYS.writer(A)) is None


async def test_keeping_it_while_an_epoch_is_filled(link: RedisLink, redis_server: RedisServer) -> None:
    """Whatever is registered meanwhile; not when another one has it."""
    one = lock("one")
    await epoch(link, one)

    assert renewal(await link.run(one.keep())).held
    redis_server.client().set(KEYS.writer(A), "two")
    assert not renewal(await link.run(one.keep())).held


@pytest.mark.parametrize("forget", [True, False])
async def test_giving_it_back(link: RedisLink, redis_server: RedisServer, forget: bool) -> None:
    """The next one gets it at once. Entries stay, unless the replica has left."""
    one = lock("one")
    number = await epoch(link, one)
    await link.run(one.register(number, DETAILS))
    version = redis_server.client().hget(KEYS.registry(A.namespace), "v")

    assert await link.run(one.release(number, forget=forget)) == 1

    assert bool(registered(redis_server)) is not forget
    assert (redis_server.client().hget(KEYS.registry(A.namespace), "v") != version) is forget
    assert await link.run(lock("two").acquire()) is not None


async def test_details_that_did_not_change_make_nobody_read_again(link: RedisLink, redis_server: RedisServer) -> None:
    """The registry keeps its version."""
    one = lock("one")
    number = await epoch(link, one)
    versions = []
    for details in (DETAILS, DETAILS, Details("s", state="blind")):
        await link.run(one.register(number, details))
        versions.append(redis_server.client().hget(KEYS.registry(A.namespace), "v"))

    assert versions[0] == versions[1] != versions[2]


async def test_epochs_rise_when_the_servers_clock_goes_back(link: RedisLink, redis_server: RedisServer) -> None:
    """As it may with a failover: what was given out last counts."""
    one = lock("one")
    redis_server.client().set(KEYS.epochs(A.namespace), FUTURE)

    numbers = [await epoch(link, one) for _ in range(3)]

    assert numbers == [FUTURE + 1, FUTURE + 2, FUTURE + 3]


async def test_epochs_rise_also_when_only_the_registry_remembers(link: RedisLink, redis_server: RedisServer) -> None:
    """The clock went back and the last epoch was evicted: the one in force can be replaced all the same."""
    one = lock("one")
    redis_server.client().hset(KEYS.registry(A.namespace), f"r:{A.replica_id}", b"%d " % FUTURE + DETAILS.encode())

    number = await epoch(link, one)

    assert number > FUTURE
    assert await link.run(one.register(number, DETAILS)) == b"%d" % FUTURE


@pytest.mark.parametrize("entry", [b"", b"x", b"nan ", b"12", b"-5 ", b"9" * 30 + b" ", b"\xff\x00"])
async def test_garbage_in_their_place_is_overcome(link: RedisLink, redis_server: RedisServer, entry: bytes) -> None:
    """No number stands there, or one that no clock ever shows: two new epochs still differ, and can be registered."""
    one, client = lock("one"), redis_server.client()
    client.set(KEYS.epochs(A.namespace), entry)
    client.hset(KEYS.registry(A.namespace), f"r:{A.replica_id}", entry)

    first, second = await epoch(link, one), await epoch(link, one)

    assert 0 < first < second < 1 << 53
    assert await link.run(one.register(second, DETAILS)) == b"0"
    assert registered(redis_server)[0] == b"%d" % second
