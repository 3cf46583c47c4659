"""Orders come true in the pool and in the router."""

from __future__ import annotations

import logging

import pytest

from gateway.router.order_effects import DrainEffects, OrderEffects
from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from gateway.shared.orders.order_book import OrderBook
from tests.gateway.examples import a_pool, a_router


class House:
    """A book, and what it governs."""

    def __init__(self) -> None:
        self.book = OrderBook()
        self.pool = a_pool()
        self.router = a_router(self.pool, strategy="kv_aware")
        self.effects = OrderEffects(self.book, self.pool, self.router)

    def hear(self, *orders: Order) -> None:
        self.book.merge(orders)
        self.effects.apply()

    @property
    def drained(self) -> list[str]:
        return [server.id for server in self.pool.servers if server.draining]


def test_drains_hold_until_they_are_cleared() -> None:
    """Each server by itself; ids of servers that are not here do no harm."""
    house = House()
    house.hear(Order(DRAIN, "a", version=1), Order(DRAIN, "gone", version=2))
    one = house.drained
    house.hear(Order(DRAIN, "b", version=3))
    two = house.drained
    house.hear(Order(DRAIN, "a", cleared=True, version=4))

    assert (one, two, house.drained) == (["a"], ["a", "b"], ["b"])


def test_a_strategy_holds_until_it_is_cleared(caplog: pytest.LogCaptureFixture) -> None:
    """Then the configured one is in force again; the log names who ordered it."""
    caplog.set_level(logging.INFO)
    house = House()
    house.hear(Order(STRATEGY, value="round_robin", author="ann@desk", version=1))
    ordered = house.router.strategy
    house.hear(Order(STRATEGY, cleared=True, version=2))

    assert (ordered, house.router.strategy) == ("round_robin", "kv_aware")
    assert caplog.messages == [
        "strategy round_robin: ordered by ann@desk (version 1)",
        "strategy kv_aware: as configured",
    ]


def test_a_strategy_that_only_newer_processes_have(caplog: pytest.LogCaptureFixture) -> None:
    """The configured one is in force, whatever was before; the log says it once."""
    house = House()
    house.hear(Order(STRATEGY, value="round_robin", version=1))
    house.hear(Order(STRATEGY, value="clairvoyant", version=2))
    house.hear(Order(DRAIN, "a", version=3))
    unknown = house.effects.unknown_strategy
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    house.hear(Order(STRATEGY, value="round_robin", version=4))

    assert unknown == "clairvoyant"
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "the strategy that was ordered is not in force here: no strategy is named 'clairvoyant'"
    )
    assert (house.router.strategy, house.effects.unknown_strategy) == ("round_robin", "")
    assert house.drained == ["a"]


def test_an_unknown_kind_changes_nothing() -> None:
    """It is a newer process's."""
    house = House()
    house.hear(Order("pause", "a", version=1))

    assert (house.drained, house.router.strategy) == ([], "kv_aware")


def test_a_process_that_sends_no_requests_obeys_drains_alone() -> None:
    """It has no strategy."""
    book, pool = OrderBook(), a_pool()
    effects = DrainEffects(book, pool)
    book.merge([Order(DRAIN, "a", version=1), Order(STRATEGY, value="round_robin", version=2)])
    effects.apply()

    assert [server.id for server in pool.servers if server.draining] == ["a"]
