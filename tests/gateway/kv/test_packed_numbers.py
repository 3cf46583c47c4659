"""Numbers to bytes and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.packed_numbers import Width, pack_numbers, unpack_numbers


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_numbers_come_back_in_their_order(numbers: list[int]) -> None:
    """Eight bytes each, little-endian."""
    packed = pack_numbers(numbers)

    assert packed == struct.pack(f"<{len(numbers)}Q", *numbers)
    assert unpack_numbers(packed).tolist() == numbers


def test_many_numbers_of_an_iterator() -> None:
    """More than are packed at once, and given one by one."""
    packed = pack_numbers(iter(range(50_000)), "I")

    assert len(packed) == 200_000
    assert unpack_numbers(packed, "I").tolist() == list(range(50_000))


@pytest.mark.parametrize(("number", "width"), [(-1, "Q"), (2**64, "Q"), (2**32, "I")])
def test_what_does_not_fit_is_an_error(number: int, width: Width) -> None:
    """Negative or too large."""
    with pytest.raises(OverflowError):
        pack_numbers([number], width)


def test_bytes_left_over_are_an_error() -> None:
    """No list of numbers has that length."""
    with pytest.raises(ValueError, match="length"):
        unpack_numbers(bytes(9))
