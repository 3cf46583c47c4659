"""Orders: who keeps what operators order, and takes new orders: with Redis for the whole fleet, else for a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from gateway.errors import OrderConflict
from gateway.shared.orders.order import Order
from gateway.shared.orders.order_book import OrderBook

Scope = Literal["fleet", "process"]

#: How long it is remembered that something was cleared.
FORGOTTEN_AFTER_S = 7 * 86_400.0
_MOST = 1000


class Orders(Protocol):
    """``scope``: whom an order reaches."""

    @property
    def scope(self) -> Scope: ...

    @property
    def book(self) -> OrderBook: ...

    async def give(self, order: Order) -> Order:
        """Put an order in force and return it with its version. The same id again changes nothing.

        Raises ``OrderConflict``, or ``OrdersUnavailable``.
        """
        ...

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back after every change of the book, whoever made it."""
        ...


def check_room(book: OrderBook, order: Order) -> None:
    """Orders are for people: a fleet has a few. Raises ``OrderConflict``."""
    if len(book) >= _MOST and order.field not in {held.field for held in book}:
        raise OrderConflict(f"{len(book)} orders are kept already: clear those of servers that are gone.")


def check_same(given: Order, order: Order) -> None:
    """Raises ``OrderConflict`` where an id was used before for something else."""
    if not given.says_the_same(order):
        raise OrderConflict(f"The id {order.id} was another order's.", param="id")
