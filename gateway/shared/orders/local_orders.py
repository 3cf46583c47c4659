"""LocalOrders: orders without Redis. They reach this process only, and end with it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.shared.orders.order import Order
from gateway.shared.orders.order_book import OrderBook
from gateway.shared.orders.orders import FORGOTTEN_AFTER_S, Scope, check_room, check_same

_IDS = 1000  # that are remembered


class LocalOrders:
    """One of :class:`~gateway.shared.orders.orders.Orders`. ``wall_clock``: Unix seconds."""

    scope: Scope = "process"

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        self.book = OrderBook()
        self._wall_clock = wall_clock
        self._given: dict[str, Order] = {}  # by id
        self._listeners: list[Callable[[], None]] = []

    def listen(self, callback: Callable[[], None]) -> None:
        self._listeners.append(callback)

    async def give(self, order: Order) -> Order:
        if (given := self._given.get(order.id)) is not None:
            check_same(given, order)
            return given
        self.book.forget(self.book.cleared_before(self._wall_clock() - FORGOTTEN_AFTER_S))
        check_room(self.book, order)
        given = msgspec.structs.replace(order, version=self.book.version + 1)
        self._remember(given)
        self.book.merge([given])
        for callback in self._listeners:
            callback()
        return given

    def _remember(self, given: Order) -> None:
        self._given[given.id] = given
        if len(self._given) > _IDS:
            del self._given[next(iter(self._given))]
