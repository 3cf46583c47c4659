"""Orders without Redis."""

from __future__ import annotations

import pytest

from gateway.errors import OrderConflict
from gateway.shared.orders.local_orders import LocalOrders
from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from gateway.shared.orders.orders import FORGOTTEN_AFTER_S
from tests.gateway.examples import Clock


async def test_orders_come_into_force_at_once() -> None:
    """With versions of this process, and whoever listens is told after each."""
    orders, heard = LocalOrders(wall_clock=Clock()), []
    orders.listen(lambda: heard.append([order.kind for order in orders.book.in_force()]))

    first = await orders.give(Order(STRATEGY, value="session", id="1"))
    second = await orders.give(Order(DRAIN, "a", id="2"))
    await orders.give(Order(STRATEGY, cleared=True, id="3"))

    assert (orders.scope, first.version, second.version, orders.book.version) == ("process", 1, 2, 3)
    assert heard == [["strategy"], ["strategy", "drain"], ["drain"]]


async def test_the_same_order_again_is_not_given_again() -> None:
    """Not even after another one replaced it; its id for something else is refused."""
    orders = LocalOrders(wall_clock=Clock())
    first = await orders.give(Order(STRATEGY, value="x", id="1"))
    await orders.give(Order(STRATEGY, value="y", id="2"))

    again = await orders.give(Order(STRATEGY, value="x", id="1"))
    with pytest.raises(OrderConflict):
        await orders.give(Order(STRATEGY, value="z", id="1"))

    assert again == first
    assert orders.book.in_force(STRATEGY)[0].value == "y"


async def test_long_cleared_orders_and_old_ids_are_forgotten() -> None:
    """A gateway that runs for years does not grow."""
    clock = Clock()
    orders = LocalOrders(wall_clock=clock)
    for number in range(2500):
        await orders.give(Order(DRAIN, f"s{number}", cleared=True, at_s=clock.now, id=str(number)))
        clock.now += FORGOTTEN_AFTER_S / 500

    assert len(orders.book) < 600
    assert (await orders.give(Order(DRAIN, "s2499", cleared=True, id="2499"))).version == 2500
