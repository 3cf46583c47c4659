"""Hashes as bytes and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.block_bytes import members, pack_blocks, unpack_blocks

_BLOCKS = st.lists(st.integers(0, (1 << 64) - 1))


@given(blocks=_BLOCKS)
def test_what_is_packed_is_unpacked(blocks: list[int]) -> None:
    """Any 64-bit hashes, eight bytes each, also one by one."""
    packed = pack_blocks(blocks)

    assert unpack_blocks(packed) == blocks
    assert b"".join(members(blocks)) == packed
    assert len(packed) == 8 * len(blocks)


def test_the_bytes_are_little_endian_on_every_machine() -> None:
    """They are compared with what other machines wrote."""
    assert pack_blocks([1, 1 << 63]) == bytes([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80])


def test_half_a_hash_is_refused() -> None:
    """Bytes from outside may be cut off."""
    with pytest.raises(ValueError, match="multiple"):
        unpack_blocks(b"123456789")
