"""Orders for the whole fleet: they reach everybody, and outlive every process, and Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest

from gateway.errors import OrderConflict, OrdersUnavailable
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.orders.fleet_orders import FleetOrders
from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from gateway.shared.orders.orders import FORGOTTEN_AFTER_S
from gateway.shared.processes.heartbeat import Heartbeat
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.fakes.waiting import eventually
from tests.gateway.examples import Clock
from tests.gateway.shared.processes.processes import Connect, beat, connecting, no_redis

KEYS = Keys()
ORDERS = KEYS.fleet("orders")


class Process:
    """One that keeps orders. ``in_force`` is what it acts by: values and targets."""

    def __init__(self, link: RedisLink) -> None:
        self.link = link
        self.clock = Clock()
        self.orders = FleetOrders(link, KEYS, wall_clock=self.clock)
        self.changes = 0
        self.orders.listen(self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def beat(self) -> None:
        await beat(self.link, self.orders)

    async def set(self, value: str, id_: str) -> Order:
        return await self.orders.give(Order(STRATEGY, value=value, id=id_, at_s=self.clock.now))

    async def drain(self, server: str, id_: str, *, cleared: bool = False) -> Order:
        return await self.orders.give(Order(DRAIN, server, cleared=cleared, id=id_, at_s=self.clock.now))

    @property
    def in_force(self) -> list[str]:
        return sorted(order.value or order.target for order in self.orders.book.in_force())


async def _beat(*processes: Process) -> None:
    for process in processes:
        await process.beat()


@pytest.fixture
async def connect(redis_server: RedisServer) -> AsyncIterator[Connect]:
    async with connecting(redis_server) as connect:
        yield connect


async def test_an_order_reaches_everybody_with_the_next_beat(connect: Connect) -> None:
    """At the one that took it, at once. Listeners are told of changes only."""
    one, two = Process(connect()), Process(connect())

    given = await one.set("session", "1")
    at_once = one.in_force
    await _beat(two, one, two, one)

    assert (one.orders.scope, given.version) == ("fleet", 1)
    assert at_once == two.in_force == one.in_force == ["session"]
    assert (one.changes, two.changes) == (1, 1)
    assert two.orders.book.get(STRATEGY) == given


async def test_a_heartbeat_carries_it(connect: Connect) -> None:
    """Nobody has to ask."""
    one, two = Process(connect()), Process(connect())
    async with running(Heartbeat(one.link, [one.orders]).run()), running(Heartbeat(two.link, [two.orders]).run()):
        await one.set("session", "1")
        await eventually(lambda: two.in_force == ["session"])
        await two.orders.give(Order(STRATEGY, cleared=True, id="2"))
        await eventually(lambda: one.in_force == [])


async def test_beats_without_news_carry_none(connect: Connect) -> None:
    """Neither way."""
    one, two = Process(connect()), Process(connect())
    await one.set("session", "1")
    await _beat(one, two)

    command = two.orders.command()
    assert len(command.args) == 3
    assert len(await two.link.run(command)) == 2


async def test_orders_outlive_all_gateways(connect: Connect) -> None:
    """All are gone; whoever starts next obeys."""
    one = Process(connect())
    await one.set("session", "1")
    await one.drain("a", "2")
    next_one = Process(connect())

    await next_one.beat()

    assert next_one.in_force == ["a", "session"]
    assert (await next_one.drain("b", "3")).version == 3


async def test_orders_outlive_redis(connect: Connect, redis_server: RedisServer) -> None:
    """While a process lives: it puts back what a flush took, and the count of versions goes on."""
    one, newcomer = Process(connect()), Process(connect())
    await one.set("session", "1")
    await one.drain("a", "2")
    redis_server.client().flushall()

    await _beat(one, one, newcomer)
    given = await newcomer.drain("b", "3")
    await one.beat()

    assert newcomer.in_force == one.in_force == ["a", "b", "session"]
    assert given.version == 3


async def test_an_order_given_right_after_a_flush_is_the_latest(connect: Connect, redis_server: RedisServer) -> None:
    """Before anything was put back: its version follows what its giver knows."""
    one, two = Process(connect()), Process(connect())
    await one.set("session", "1")
    await one.set("round_robin", "2")
    await _beat(two)
    redis_server.client().flushall()

    given = await one.set("prefix_aware", "3")
    await _beat(two, one, two)

    assert given.version == 3
    assert one.in_force == two.in_force == ["prefix_aware"]


async def test_the_same_order_sent_to_several_processes_is_one(connect: Connect, redis_server: RedisServer) -> None:
    """Even where another one came between; the id for something else is refused and changes nothing."""
    one, two, three = Process(connect()), Process(connect()), Process(connect())

    first = await one.set("session", "same")
    second = await two.set("session", "same")
    other = await one.set("round_robin", "other")
    third = await three.set("session", "same")
    with pytest.raises(OrderConflict, match="another order's"):
        await three.set("prefix_aware", "same")
    await _beat(one, two, three)

    assert first == second == third
    assert other.version == 2
    assert one.in_force == two.in_force == three.in_force == ["round_robin"]


async def test_what_was_cleared_does_not_come_back(connect: Connect, redis_server: RedisServer) -> None:
    """Not even when a process that never heard of it is the first to put back what it knows."""
    stale, one, newcomer = Process(connect()), Process(connect()), Process(connect())
    await one.drain("a", "1")
    await stale.beat()
    await one.drain("a", "2", cleared=True)
    redis_server.client().flushall()

    await _beat(stale, stale, one, one, stale, newcomer)

    assert stale.in_force == one.in_force == newcomer.in_force == []


async def test_a_failover_that_lost_an_order_loses_none(connect: Connect, redis_server: RedisServer) -> None:
    """The new server gave the lost order's version again: all processes end with the same orders all the same."""
    one, two = Process(connect()), Process(connect())
    await one.set("session", "lost")
    lost = await one.drain("a", "lost-too")
    redis_server.client().flushall()

    await two.set("round_robin", "new")
    again = await two.drain("b", "new-too")
    await _beat(one, two, one, two, one, two)

    assert lost.version == again.version
    assert one.in_force == two.in_force == ["a", "b", "round_robin"]  # of equal versions the higher id


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_events_ends_in_agreement(connect: Connect, redis_server: RedisServer, seed: int) -> None:
    """Orders, beats, flushes and starts at random: afterwards everybody acts alike, and a newcomer, too."""
    random = Random(seed)
    processes = [Process(connect()) for _ in range(3)]
    for number in range(60):
        process = random.choice(processes)
        match random.choice(("beat", "beat", "set", "drain", "undrain", "flush", "start")):
            case "beat":
                await process.beat()
            case "set":
                await process.set(f"s{number}", f"x{number}-{random.random()}".replace(".", ""))
            case "drain" | "undrain" as what:
                await process.drain(random.choice("ab"), str(number), cleared=what == "undrain")
            case "flush":
                redis_server.client().flushall()
            case _:
                processes.append(Process(process.link))

    for _ in range(3):
        await _beat(*processes)
    newcomer = Process(connect())
    await newcomer.beat()

    assert {tuple(process.in_force) for process in processes} == {tuple(newcomer.in_force)}
    assert {process.orders.book.version for process in processes} == {newcomer.orders.book.version}


async def test_without_redis_no_order_is_taken() -> None:
    """The answer says so, and nothing is in force that others would not hear of."""
    async with no_redis() as link:
        process = Process(link)
        with pytest.raises(OrdersUnavailable, match=r"Redis is not available: .*Nothing was changed here"):
            await process.set("session", "1")
        process.orders.missed()

    assert (process.in_force, process.changes) == ([], 0)


async def test_a_redis_that_refuses_takes_no_order(connect: Connect, redis_server: RedisServer) -> None:
    """Out of memory: nothing was changed, and the same order may be sent again later."""
    process, client = Process(connect()), redis_server.client()
    client.config_set("maxmemory", "1")
    try:
        with pytest.raises(OrdersUnavailable, match="Redis refused: OOM"):
            await process.set("session", "1")
        refused = process.in_force
    finally:
        client.config_set("maxmemory", "0")

    assert refused == []
    assert (await process.set("session", "1")).version == 1


async def test_orders_of_newer_processes(connect: Connect, redis_server: RedisServer) -> None:
    """Unknown kinds are kept and put back; what cannot be read is left alone, and counted."""
    one, client = Process(connect()), redis_server.client()
    client.hset(
        ORDERS,
        mapping={"pause/a": '3 p {"kind":"pause","target":"a"}', "odd/b": '4 q ["?"]', "version": 4, "token": "t"},
    )
    await one.beat()
    client.delete(ORDERS)
    client.hset(ORDERS, "odd/b", '4 q ["?"]')
    await _beat(one, one, one)

    assert one.orders.unreadable == 1
    assert [order.field for order in one.orders.book] == ["pause/a"]
    assert client.hget(ORDERS, "pause/a") == b'3 p {"kind":"pause","target":"a"}'
    assert client.hget(ORDERS, "odd/b") == b'4 q ["?"]'
    assert (await one.set("session", "1")).version == 5


async def test_rubbish_under_an_orders_name_is_replaced(connect: Connect, redis_server: RedisServer) -> None:
    """It has no version, so any order is newer."""
    one = Process(connect())
    await one.set("session", "1")
    redis_server.client().hset(ORDERS, mapping={"strategy/": "rubbish", "token": "other"})
    newcomer = Process(connect())

    await _beat(one, one, newcomer)

    assert newcomer.in_force == ["session"]


@pytest.mark.parametrize("rubbish", ["", "x", "-5", "nan", "inf", "1e9", "9" * 15, "9" * 30])
async def test_rubbish_for_a_version_does_not_end_all_orders(
    connect: Connect, redis_server: RedisServer, rubbish: str
) -> None:
    """Neither as the highest one nor as that of an order: what is known goes back, and new ones are given."""
    one = Process(connect())
    await one.set("session", "1")
    redis_server.client().hset(
        ORDERS, mapping={"version": rubbish, "strategy/": f'{rubbish} x {{"kind":"strategy"}}', "token": "other"}
    )
    await _beat(one, one)
    newcomer = Process(connect())
    await newcomer.beat()
    assert newcomer.in_force == ["session"]

    assert (await newcomer.drain("a", "2")).version == 2
    await one.beat()
    assert one.in_force == ["a", "session"]


async def test_long_cleared_orders_are_forgotten(connect: Connect, redis_server: RedisServer) -> None:
    """By the next order, in Redis and in every process; the versions go on."""
    one, two = Process(connect()), Process(connect())
    await one.drain("a", "1")
    await one.drain("a", "2", cleared=True)
    await _beat(two)
    for process in (one, two):
        process.clock.now += FORGOTTEN_AFTER_S + 1
    await two.drain("b", "3")
    await _beat(one, two, one, two)
    redis_server.client().flushall()
    await _beat(one, two, one, two)

    fields = set(redis_server.client().hkeys(ORDERS))
    assert fields == {b"drain/b", b"version", b"token"}
    assert (await one.drain("c", "4")).version == 4


async def test_keys_do_not_outlive_the_fleet_for_ever(connect: Connect, redis_server: RedisServer) -> None:
    """30 days for the orders, renewed by every beat; an hour for an id."""
    process, client = Process(connect()), redis_server.client()
    await process.set("session", "1")
    client.expire(ORDERS, 5)
    await process.beat()

    assert 30 * 86_400 - 60 < client.ttl(ORDERS) <= 30 * 86_400
    assert 0 < client.ttl(KEYS.fleet("order=1")) <= 3600
    assert len(client.keys()) == 2
