"""The book: whatever the order of hearing, the same orders make the same book."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.shared.orders.order import DRAIN, STRATEGY, Order
from gateway.shared.orders.order_book import OrderBook


def _order(serial: int, target: str, version: int, cleared: bool, kind: str) -> Order:
    return Order(kind, target, f"value-{serial}", cleared, at_s=float(version), id=f"id-{serial}", version=version)


#: Orders that are all different, few enough in kind that they meet, with versions that collide now and then.
ORDERS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.booleans(), st.sampled_from([DRAIN, STRATEGY])), max_size=12
).map(lambda rows: [_order(serial, *row) for serial, row in enumerate(rows)])


def _content(book: OrderBook) -> dict[str, Order]:
    return {order.field: order for order in book}


@given(ORDERS, st.integers(0, 12))
def test_merging_is_commutative(orders: list[Order], cut: int) -> None:
    """Who heard of what first makes no difference."""
    one, two = OrderBook(orders[:cut]), OrderBook(orders[cut:])
    one.merge(orders[cut:])
    two.merge(orders[:cut])

    assert _content(one) == _content(two)
    assert one.version == two.version == max((order.version for order in orders), default=0)


@given(ORDERS)
def test_merging_is_idempotent(orders: list[Order]) -> None:
    """Hearing of it again changes nothing, and says so."""
    book = OrderBook(orders)
    before = _content(book)

    assert not book.merge(orders)
    assert _content(book) == before


@given(ORDERS)
def test_books_that_gossip_converge(orders: list[Order]) -> None:
    """Each heard of some orders only; after telling each other twice around, all agree."""
    books = [OrderBook(orders[at::3]) for at in range(3)]
    for _ in range(2):
        for teller in books:
            for listener in books:
                listener.merge(teller)

    assert _content(books[0]) == _content(books[1]) == _content(books[2]) == _content(OrderBook(orders))


def test_the_latest_order_holds_until_it_is_cleared() -> None:
    """A clearing is remembered, so that an old order cannot come back."""
    old, new = (Order(STRATEGY, value=value, version=version) for value, version in (("old", 1), ("new", 2)))
    cleared = Order(STRATEGY, cleared=True, version=3)
    book = OrderBook([old])
    first = book.get(STRATEGY)
    book.merge([new])
    second = book.get(STRATEGY)
    book.merge([cleared])
    book.merge([old, new])

    assert (first, second, book.get(STRATEGY)) == (old, new, None)
    assert book.in_force() == []
    assert list(book) == [cleared]


def test_what_is_in_force_comes_as_it_was_given() -> None:
    """Of one kind, or all."""
    book = OrderBook(
        [Order(DRAIN, "b", version=3), Order(STRATEGY, value="x", version=2), Order(DRAIN, "a", version=1)]
    )

    assert [order.target for order in book.in_force(DRAIN)] == ["a", "b"]
    assert [order.version for order in book.in_force()] == [1, 2, 3]
    assert book.get(DRAIN, "c") is None
    assert repr(book) == "<OrderBook version=3 ['drain/a', 'strategy/', 'drain/b']>"


def test_versions_only_rise() -> None:
    """Also by what others know, and when the latest order was forgotten."""
    book = OrderBook()
    changed = book.merge([], version=5)
    book.merge([Order(DRAIN, "a", cleared=True, version=9)])
    book.forget(list(book))

    assert not changed
    assert (book.version, len(book)) == (9, 0)


def test_only_old_clearings_are_forgotten() -> None:
    """Never an order in force, nor one that was given in the meantime."""
    old, recent = (Order(DRAIN, id_, cleared=True, at_s=at_s, version=1) for id_, at_s in (("a", 1.0), ("b", 9.0)))
    book = OrderBook([old, recent, Order(DRAIN, "c", at_s=1.0, version=1)])
    forgettable = book.cleared_before(5.0)
    book.merge([Order(DRAIN, "a", version=2)])
    book.forget(forgettable)

    assert forgettable == [old]
    assert len(book) == 3
