"""OrderEffects: makes the orders in force true in this process."""

from __future__ import annotations

import logging

from gateway.fleet.replica_pool import ReplicaPool
from gateway.router.router import Router
from gateway.shared.orders.order import DRAIN, STRATEGY
from gateway.shared.orders.order_book import OrderBook

_log = logging.getLogger(__name__)


class DrainEffects:
    """The orders that concern a process which sends no requests. Call :meth:`apply` after every change of the book."""

    def __init__(self, book: OrderBook, pool: ReplicaPool) -> None:
        self._book = book
        self._pool = pool
        self._drained: list[str] = []

    def apply(self) -> None:
        drained = sorted(order.target for order in self._book.in_force(DRAIN))
        self._pool.set_drained(drained)
        if drained != self._drained:
            self._drained = drained
            _log.info("drained: %s", ", ".join(drained) or "no server")


class OrderEffects:
    """All of them. Call :meth:`apply` after every change of the book."""

    def __init__(self, book: OrderBook, pool: ReplicaPool, router: Router) -> None:
        self._book = book
        self._drains = DrainEffects(book, pool)
        self._router = router
        self.unknown_strategy = ""  # ordered, by a newer process, and not to be had here

    def apply(self) -> None:
        self._use_strategy()
        self._drains.apply()

    def _use_strategy(self) -> None:
        """A strategy that is not known here is not in force here: the configured one is."""
        order, before = self._book.get(STRATEGY), self._router.strategy
        unknown, why = "", "as configured"
        try:
            self._router.use_strategy(order.value if order else None)
            if order is not None:
                why = f"ordered by {order.author} (version {order.version})"
        except ValueError as error:
            self._router.use_strategy(None)
            unknown, why = order.value if order else "", str(error)
        if self._router.strategy != before:
            _log.info("strategy %s: %s", self._router.strategy, why)
        if unknown and unknown != self.unknown_strategy:
            _log.warning("the strategy that was ordered is not in force here: %s", why)
        self.unknown_strategy = unknown
