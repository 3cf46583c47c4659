"""What holds for orders wherever they are kept."""

from __future__ import annotations

import pytest

from gateway.errors import OrderConflict
from gateway.shared.orders.order import DRAIN, Order
from gateway.shared.orders.order_book import OrderBook
from gateway.shared.orders.orders import check_room, check_same


def test_a_full_book_takes_what_replaces_an_order() -> None:
    """So that what fills it can be cleared."""
    book = OrderBook(Order(DRAIN, f"s{number}", version=1) for number in range(1000))

    check_room(book, Order(DRAIN, "s5", cleared=True))
    with pytest.raises(OrderConflict, match="1000 orders are kept"):
        check_room(book, Order(DRAIN, "another"))


def test_an_id_means_one_order() -> None:
    """Whoever uses it for another one is told."""
    check_same(Order(DRAIN, "a", id="x", version=3), Order(DRAIN, "a", id="x"))
    with pytest.raises(OrderConflict, match="another order's"):
        check_same(Order(DRAIN, "a", id="x", version=3), Order(DRAIN, "b", id="x"))
