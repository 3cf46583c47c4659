"""Own block hashes as bytes: 8 each, little-endian, as they are members of sets and travel between processes."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable

BLOCK_BYTES = 8


def pack_blocks(blocks: Iterable[int]) -> bytes:
    """All in a row."""
    packed = array("Q", blocks)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_blocks(data: bytes) -> list[int]:
    """What :func:`pack_blocks` packed. Raises ``ValueError`` for a length that is no multiple of 8."""
    packed = array("Q")
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()


def members(blocks: Collection[int]) -> list[bytes]:
    """Each by itself."""
    packed = pack_blocks(blocks)
    return [packed[at : at + BLOCK_BYTES] for at in range(0, len(packed), BLOCK_BYTES)]
