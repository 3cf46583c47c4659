"""FleetOrders: orders for all processes. They lie in Redis, and in every process that lives.

Every beat compares a token, and reads the orders when it changed. What Redis turns out to lack, after a flush or a
failover that lost writes, goes back with the next beat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gateway.errors import OrdersUnavailable
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall
from gateway.shared.orders.order import Order, rank_of
from gateway.shared.orders.order_book import OrderBook
from gateway.shared.orders.orders import FORGOTTEN_AFTER_S, Scope, check_room, check_same

_ORDERS_S = 30 * 86_400
_ID_S = 3600
_NOTHING = (-1, b"")
_UNSEEN = b"-"  # no token of Redis's
_BEAT = Script.load("orders")
_GIVE = Script.load("order")


class FleetOrders:
    """One of :class:`~gateway.shared.orders.orders.Orders`, and a part of the heartbeat."""

    scope: Scope = "fleet"

    def __init__(self, link: RedisLink, keys: Keys, *, wall_clock: Callable[[], float]) -> None:
        """``wall_clock``: Unix seconds."""
        self.book = OrderBook()
        self.unreadable = 0  # orders in Redis, when they were last read, that make no sense here
        self._link = link
        self._keys = keys
        self._wall_clock = wall_clock
        self._token = _UNSEEN
        self._lacking: list[Order] = []  # in Redis
        self._listeners: list[Callable[[], None]] = []

    def listen(self, callback: Callable[[], None]) -> None:
        self._listeners.append(callback)

    async def give(self, order: Order) -> Order:
        forgotten = self._forgettable()
        self.book.forget(forgotten)
        check_room(self.book, order)
        words = [word for old in forgotten for word in (old.field, old.head())]
        keys = (self._keys.fleet("orders"), self._keys.fleet(f"order={order.id}"))
        call = ScriptCall(
            _GIVE, keys, (order.field, order.id, order.content(), self.book.version, _ORDERS_S, _ID_S, *words)
        )
        try:
            answer = await self._link.run(call)
        except RedisUnavailable as error:
            raise OrdersUnavailable(
                f"Redis is not available: {_sentence(error)} Nothing was changed here. If Redis got the order all the"
                " same, it comes into force when Redis is back."
            ) from error
        except RedisError as error:
            raise OrdersUnavailable(f"Redis refused: {_sentence(error)} Nothing was changed.") from error
        given = Order.decode(answer)
        check_same(given, order)
        self._token = _UNSEEN
        self._learn([given], given.version)
        return given

    # beats

    def command(self) -> ScriptCall:
        lacking = [word for order in self._lacking for word in (order.field, order.encode())]
        return ScriptCall(_BEAT, (self._keys.fleet("orders"),), (self._token, self.book.version, _ORDERS_S, *lacking))

    def answered(self, answer: Sequence[Any]) -> None:
        token, version, *rows = answer
        if token == self._token:
            self._learn([], version)
            self._lacking = []
            return
        self._token = token
        held = dict(zip(rows[::2], rows[1::2]))
        self._learn(self._readable(held.values()), version)
        forgettable = self._forgettable()
        self._lacking = [
            order
            for order in self.book
            if _rank(held.get(order.field.encode())) < order.rank and order not in forgettable
        ]

    def missed(self) -> None:
        """What is known stays in force."""

    def _learn(self, orders: Sequence[Order], version: int) -> None:
        if self.book.merge(orders, version):
            for callback in self._listeners:
                callback()

    def _readable(self, values: Any) -> list[Order]:
        orders, self.unreadable = [], 0
        for value in values:
            try:
                orders.append(Order.decode(value))
            except ValueError:
                self.unreadable += 1
        return orders

    def _forgettable(self) -> list[Order]:
        return self.book.cleared_before(self._wall_clock() - FORGOTTEN_AFTER_S)


def _sentence(error: RedisError) -> str:
    return f"{str(error).rstrip('.')}."


def _rank(value: bytes | None) -> tuple[int, bytes]:
    try:
        return _NOTHING if value is None else rank_of(value)
    except ValueError:
        return _NOTHING
