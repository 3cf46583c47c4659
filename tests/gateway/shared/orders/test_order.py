"""One order, and its form in Redis."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shared.orders.order import Order, rank_of

ORDER = Order("drain", "pod a/1", "", True, author="Ann Ö", at_s=12.5, id="ab-1", version=7)


def test_it_is_read_as_it_was_written() -> None:
    """Version and id come first, where scripts find them; spaces elsewhere do not disturb."""
    assert ORDER.encode().startswith(b"7 ab-1 {")
    assert Order.decode(ORDER.encode()) == ORDER
    assert rank_of(ORDER.encode()) == ORDER.rank


def test_a_newer_process_may_say_more() -> None:
    """Unknown fields are ignored, unknown kinds are orders too."""
    assert Order.decode(b'9 x {"kind":"pause","target":"a","until":5}') == Order("pause", "a", id="x", version=9)


@given(st.one_of(st.binary(max_size=40), st.binary(max_size=40).map(lambda data: b"1 a " + data)))
def test_anything_else_is_a_value_error(data: bytes) -> None:
    """Whatever somebody wrote into Redis."""
    with suppress(ValueError):
        Order.decode(data)


@pytest.mark.parametrize(
    "data", [b"", b"7", b"x a {}", b"-1 a {}", b"1.5 a {}", b"1234567890123456 a {}", b"1 \xff {}"]
)
def test_without_version_and_id_it_is_none(data: bytes) -> None:
    """Only what scripts can compare as well."""
    with pytest.raises(ValueError, match="no version and id"):
        rank_of(data)


def test_the_later_one_has_the_higher_rank() -> None:
    """By version; by id only where versions are equal."""
    ranks = [Order("drain", id=id_, version=version).rank for version, id_ in ((2, "b"), (10, "a"), (2, "a"), (2, "B"))]

    assert sorted(ranks) == [(2, b"B"), (2, b"a"), (2, b"b"), (10, b"a")]


def test_two_orders_may_say_the_same() -> None:
    """Author, time, id and version do not matter."""
    same = Order("drain", "pod a/1", "", True, author="Bob", id="other")

    assert same.says_the_same(ORDER)
    assert not Order("drain", "pod a/1").says_the_same(ORDER)
    assert not Order("drain", "pod", "", True).says_the_same(ORDER)
    assert not Order("strategy", "", "x").says_the_same(Order("strategy", "", "y"))
