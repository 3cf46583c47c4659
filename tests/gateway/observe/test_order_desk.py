"""Orders from people: what is checked, and what they are told."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest, OrderConflict, ServerNotFound
from gateway.observe.order_desk import OrderDesk
from gateway.router.order_effects import OrderEffects
from gateway.shared.orders.local_orders import LocalOrders
from gateway.shared.orders.order import STRATEGY, Order
from router_strategies import available
from tests.gateway.examples import Clock, a_pool, a_router


class House:
    """A desk over a pool and a router that obey."""

    def __init__(self, servers: str = "a=http://a:1,b=http://b:1") -> None:
        self.pool = a_pool(servers)
        self.router = a_router(self.pool)
        self.orders = LocalOrders(wall_clock=Clock())
        effects = OrderEffects(self.orders.book, self.pool, self.router)
        self.orders.listen(effects.apply)
        self.desk = OrderDesk(
            self.orders,
            servers=lambda: [server.id for server in self.pool.servers],
            strategy=lambda: self.router.strategy,
            configured="kv_aware",
            wall_clock=Clock(),
        )

    @property
    def drained(self) -> list[str]:
        return [server.id for server in self.pool.servers if server.draining]


async def test_a_strategy_is_set_and_cleared() -> None:
    """By any spelling; the answer says what is in force, for whom, and in which version."""
    house = House()
    answer = await house.desk.set_strategy("Round-Robin", "ann", "id-1")
    shown = house.desk.strategy()
    cleared = await house.desk.clear_strategy("bob", "")

    order = {
        "kind": "strategy",
        "target": "",
        "value": "round_robin",
        "cleared": False,
        "author": "ann",
        "at": "1970-01-01T00:01:40+00:00",
        "id": "id-1",
        "version": 1,
    }
    assert answer == {"scope": "process", "strategy": "round_robin", "order": order}
    assert shown == {
        "strategy": "round_robin",
        "configured": "kv_aware",
        "order": order,
        "scope": "process",
        "strategies": list(available()),
    }
    assert cleared["strategy"] == house.router.strategy == "kv_aware"
    assert house.desk.strategy()["order"] is None


async def test_servers_are_drained_and_undrained() -> None:
    """What is in force is listed in the order it was given."""
    house = House()
    await house.desk.drain("b", "ann", "")
    await house.desk.drain("a", "ann", "")
    await house.desk.set_strategy("session" if "session" in available() else "round_robin", "ann", "")
    drained = house.drained
    await house.desk.undrain("b", "ann", "")
    page = house.desk.orders()

    assert (drained, house.drained) == (["a", "b"], ["a"])
    assert (page["scope"], page["version"]) == ("process", 4)
    assert [(order["kind"], order["target"]) for order in page["orders"]] == [("drain", "a"), ("strategy", "")]  # type: ignore[attr-defined]


async def test_unknown_names_are_refused_with_the_known_ones() -> None:
    """And nothing is ordered."""
    house = House()
    with pytest.raises(BadRequest, match=r"no strategy is named 'fastest'; there are .*kv_aware"):
        await house.desk.set_strategy("fastest", "ann", "")
    with pytest.raises(ServerNotFound, match="No server has the id 'c'; there are a, b"):
        await house.desk.drain("c", "ann", "")
    with pytest.raises(ServerNotFound, match="there are a, b"):
        await house.desk.undrain("c", "ann", "")

    assert house.desk.orders()["orders"] == []


async def test_large_and_empty_fleets_are_named_shortly() -> None:
    """Twenty ids are enough to see what ids look like."""
    many = House(",".join(f"s{number:03}=http://s{number}:1" for number in range(60)))
    with pytest.raises(ServerNotFound, match=r"s019 and 40 more\."):
        await many.desk.drain("s60", "ann", "")
    with pytest.raises(ServerNotFound, match="there is none"):
        await House("").desk.drain("a", "ann", "")


async def test_a_server_that_left_can_be_undrained() -> None:
    """Else its drain would be in force for ever."""
    house = House()
    await house.desk.drain("b", "ann", "")
    house.pool.reconcile([])
    await house.desk.undrain("b", "ann", "")

    assert house.desk.orders()["orders"] == []


async def test_an_id_makes_repetition_harmless() -> None:
    """The same order is given once; a strange id is refused."""
    house = House()
    first = await house.desk.drain("a", "ann", "one")
    again = await house.desk.drain("a", "ann", "one")
    with pytest.raises(OrderConflict):
        await house.desk.drain("b", "ann", "one")
    with pytest.raises(BadRequest, match="An id is"):
        await house.desk.drain("b", "ann", "one two")

    assert first == again
    assert house.drained == ["a"]


async def test_authors() -> None:
    """Somebody without a name is unknown; a long one is cut."""
    house = House()
    unnamed = await house.desk.drain("a", "", "")
    long = await house.desk.drain("a", "x" * 999, "")

    assert unnamed["order"]["author"] == "unknown"  # type: ignore[index]
    assert long["order"]["author"] == "x" * 200  # type: ignore[index]


def test_a_time_that_is_none_breaks_no_page() -> None:
    """Whatever another process wrote."""
    house = House()
    house.orders.book.merge([Order(STRATEGY, value="x", at_s=1e300, version=1)])

    assert house.desk.orders()["orders"][0]["at"].startswith("9999-12-31")  # type: ignore[index]
