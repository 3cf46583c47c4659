"""Own block hashes as bytes: 8 each, little-endian, as they are members of sets and travel between processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gateway.kv.packed_numbers import pack_numbers, unpack_numbers

BLOCK_BYTES = 8


def pack_blocks(blocks: Iterable[int]) -> bytes:
    """All in a row."""
    return pack_numbers(blocks)


def unpack_blocks(data: bytes) -> list[int]:
    """What :func:`pack_blocks` packed. Raises ``ValueError`` for a length that is no multiple of 8."""
    return unpack_numbers(data).tolist()


def members(blocks: Collection[int]) -> list[bytes]:
    """Each by itself."""
    packed = pack_blocks(blocks)
    return [packed[at : at + BLOCK_BYTES] for at in range(0, len(packed), BLOCK_BYTES)]
