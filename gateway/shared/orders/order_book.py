"""OrderBook: all orders a process has heard of. State only: no I/O, no clock.

Merging is commutative, associative and idempotent: processes that have heard the same orders agree, whatever the way
and the sequence in which they heard of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.shared.orders.order import Order


class OrderBook:
    """The latest order of each kind and target, and whether it was cleared."""

    def __init__(self, orders: Iterable[Order] = ()) -> None:
        self._orders: dict[str, Order] = {}  # by what they are about
        self.version = 0  # the highest that was ever heard of
        self.merge(orders)

    def __repr__(self) -> str:
        return f"<OrderBook version={self.version} {[order.field for order in self.in_force()]}>"

    def __iter__(self) -> Iterator[Order]:
        """All, with those that were cleared."""
        return iter(self._orders.values())

    def __len__(self) -> int:
        return len(self._orders)

    def merge(self, orders: Iterable[Order], version: int = 0) -> bool:
        """Take over what is newer. ``version``: the highest that others know. True if an order changed."""
        changed = False
        for order in orders:
            held = self._orders.get(order.field)
            if held is None or held.rank < order.rank:
                self._orders[order.field] = order
                changed = True
            version = max(version, order.version)
        self.version = max(self.version, version)
        return changed

    def get(self, kind: str, target: str = "") -> Order | None:
        """The order in force, or ``None``."""
        order = self._orders.get(Order(kind, target).field)
        return None if order is None or order.cleared else order

    def in_force(self, kind: str = "") -> list[Order]:
        """All in force, of one kind or of all, in the order they were given."""
        orders = (order for order in self if not order.cleared and kind in ("", order.kind))
        return sorted(orders, key=lambda order: order.rank)

    def cleared_before(self, at_s: float) -> list[Order]:
        """Those that were cleared so long ago that nobody can still have missed it."""
        return [order for order in self if order.cleared and order.at_s < at_s]

    def forget(self, orders: Iterable[Order]) -> None:
        """Drop them, unless there are newer ones by now."""
        for order in orders:
            if self._orders.get(order.field) == order:
                del self._orders[order.field]
