"""The fleet's secret: one for all, whoever starts, dies or flushes, and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.processes.hash_secret import HashSecret
from gateway.shared.processes.secret_agreement import SecretAgreement
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.processes.processes import Connect, beat, connecting, no_redis

KEYS = Keys()


class Process:
    """One that made a secret of its own when it started."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self.secret = HashSecret.random()
        self.agreement = SecretAgreement(self.secret, KEYS)
        self.changes: list[bytes] = []
        self.secret.listen(lambda: self.changes.append(self.secret.value))

    async def beat(self) -> None:
        await beat(self.link, self.agreement)


async def _beat(*processes: Process) -> None:
    for process in processes:
        await process.beat()


@pytest.fixture
async def connect(redis_server: RedisServer) -> AsyncIterator[Connect]:
    async with connecting(redis_server) as connect:
        yield connect


async def test_the_first_shares_and_the_others_adopt(connect: Connect) -> None:
    """Listeners of those that adopt are told; the first one's never."""
    one, two = Process(connect()), Process(connect())
    made = one.secret.value

    await _beat(one, two, one, two)

    assert one.secret.value == two.secret.value == made
    assert (one.changes, two.changes) == ([], [made])
    assert one.agreement.is_shared
    assert two.agreement.is_shared


async def test_a_race_of_newcomers_has_one_winner(connect: Connect) -> None:
    """All at once: all agree after one beat of each, on a secret that one of them made."""
    processes = [Process(connect()) for _ in range(8)]
    made = {process.secret.value for process in processes}

    await asyncio.gather(*(process.beat() for process in processes))

    assert len({process.secret.value for process in processes}) == 1
    assert processes[0].secret.value in made
    assert sum(bool(process.changes) for process in processes) == 7


async def test_survivors_of_a_flush_put_theirs_back(connect: Connect, redis_server: RedisServer) -> None:
    """Nobody who was there must hash anew; newcomers adopt it."""
    one, two, newcomer = Process(connect()), Process(connect()), Process(connect())
    await _beat(one, two)
    in_use = one.secret.value
    redis_server.client().flushall()

    await _beat(two, newcomer, one)

    assert one.secret.value == two.secret.value == newcomer.secret.value == in_use
    assert (one.changes, two.changes) == ([], [in_use])


async def test_a_newcomer_that_wins_the_race_after_a_flush_yields(connect: Connect, redis_server: RedisServer) -> None:
    """Two shared secrets meet: the older one wins everywhere, and those who had adopted the newer one switch."""
    old, newcomer, follower = Process(connect()), Process(connect()), Process(connect())
    await old.beat()
    in_use = old.secret.value
    redis_server.client().flushall()

    await _beat(newcomer, follower)
    split = newcomer.secret.value
    await _beat(old, newcomer, follower)

    assert split != in_use
    assert old.secret.value == newcomer.secret.value == follower.secret.value == in_use
    assert old.changes == []
    assert (newcomer.changes, follower.changes) == ([in_use], [split, in_use])


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_events_ends_in_agreement(connect: Connect, redis_server: RedisServer, seed: int) -> None:
    """Starts, deaths, flushes and beats at random: afterwards two beats of each make one secret, and it stays."""
    random, link = Random(seed), connect()
    processes = [Process(link)]
    for _ in range(60):
        happening = random.choice(("beat", "beat", "beat", "start", "flush", "death"))
        if happening == "beat":
            await random.choice(processes).beat()
        elif happening == "start":
            processes.append(Process(link))
        elif happening == "flush":
            redis_server.client().flushall()
        elif len(processes) > 1:
            processes.remove(random.choice(processes))

    await _beat(*processes, *processes)
    agreed = {process.secret.value for process in processes}
    for process in processes:
        process.changes.clear()
    await _beat(*processes)

    assert len(agreed) == 1
    assert all(process.changes == [] for process in processes)


async def test_a_start_without_redis_uses_its_own_until_redis_comes(connect: Connect) -> None:
    """Then it adopts the fleet's."""
    fleet, late = Process(connect()), Process(connect())
    await fleet.beat()
    own = late.secret.value
    async with no_redis() as link:
        settled = await late.agreement.settle(link, 5.0)
    alone = late.secret.value
    late.agreement.missed()

    await late.beat()

    assert not settled
    assert alone == own
    assert late.changes == [fleet.secret.value]


async def test_at_a_start_it_settles_before_anything_is_hashed(connect: Connect) -> None:
    """In the normal case nobody ever uses a secret of its own."""
    fleet, late = Process(connect()), Process(connect())
    await fleet.beat()

    assert await late.agreement.settle(late.link, 5.0)
    assert late.secret.value == fleet.secret.value


async def test_a_redis_that_does_not_answer_holds_up_no_start(connect: Connect, redis_server: RedisServer) -> None:
    """Paused: given up within the time that was given."""
    process = Process(connect())
    with redis_server.paused():
        settled = await process.agreement.settle(process.link, 0.05)

    assert not settled
    assert process.changes == []


@pytest.mark.parametrize(
    "held",
    [{"value": "no hex", "created": "5"}, {"value": "abc", "created": "5"}, {"value": "ab"}, {"created": "5"}],
)
async def test_what_is_no_secret_is_replaced(connect: Connect, redis_server: RedisServer, held: dict[str, str]) -> None:
    """Rubbish under its key does not part the fleet."""
    for field, value in held.items():
        redis_server.client().hset(KEYS.fleet("secret"), field, value)
    one, two = Process(connect()), Process(connect())

    await _beat(one, two)

    assert one.secret.value == two.secret.value
    assert one.changes == []


async def test_every_beat_renews_its_life(connect: Connect, redis_server: RedisServer) -> None:
    """A day: longer than any fleet is down between two rolling restarts."""
    process = Process(connect())
    await process.beat()
    client = redis_server.client()
    client.expire(KEYS.fleet("secret"), 5)
    await process.beat()

    assert 86_000 < client.ttl(KEYS.fleet("secret")) <= 86_400
