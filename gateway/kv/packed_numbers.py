"""Many unsigned numbers as bytes, little-endian, and back: 8 bytes each (``"Q"``) or 4 (``"I"``).

Made for threads beside an event loop: no single step holds the interpreter for longer than a millisecond, but for
the final copy.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import islice
from typing import Literal

Width = Literal["I", "Q"]
_AT_ONCE = 16_384


def pack_numbers(numbers: Iterable[int], width: Width = "Q") -> bytes:
    """Raises ``OverflowError`` for a number that is negative or too large."""
    rest = iter(numbers)
    packed = array(width)
    while chunk := list(islice(rest, _AT_ONCE)):
        packed.extend(array(width, chunk))
    return _little_endian(packed).tobytes()


def unpack_numbers(data: bytes, width: Width = "Q") -> array[int]:
    """What :func:`pack_numbers` packed. Raises ``ValueError`` for a length that cannot be."""
    packed = array(width)
    packed.frombytes(data)
    return _little_endian(packed)


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
