"""Block hashes against an independent recomputation, and what must never share a hash."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gateway.prompt.blocks import chain_root, extend_chain, matchable_blocks, pack_tokens

token_lists = st.lists(st.integers(0, 2**32 - 1), max_size=80)
block_sizes = st.sampled_from([1, 4, 16])
texts = st.text(max_size=8)


def recomputed(parent: int, tokens: list[int], block_size: int) -> list[int]:
    """The documented formula, one streaming digest a block."""
    hashes = []
    for start in range(0, len(tokens) // block_size * block_size, block_size):
        digest = xxhash.xxh3_64()
        digest.update(parent.to_bytes(8, "little"))
        for token in tokens[start : start + block_size]:
            digest.update(struct.pack("<I", token))
        parent = digest.intdigest()
        hashes.append(parent)
    return hashes


@given(st.integers(0, 2**64 - 1), token_lists, block_sizes)
def test_chain_is_the_documented_formula(root: int, tokens: list[int], block_size: int) -> None:
    """Every full block is hashed with its parent; a partial last block is not."""
    assert recomputed(root, tokens, block_size) == extend_chain(root, pack_tokens(tokens), block_size)


@given(token_lists, token_lists, token_lists, block_sizes)
def test_equal_prefixes_have_equal_hashes(prefix: list[int], one: list[int], other: list[int], block_size: int) -> None:
    """Two prompts agree on exactly the blocks that hold equal tokens from the start."""
    first = extend_chain(7, pack_tokens(prefix + one), block_size)
    second = extend_chain(7, pack_tokens(prefix + other), block_size)
    shared = len(prefix) // block_size

    assert first[:shared] == second[:shared]
    for i, (a, b) in enumerate(zip(first, second)):
        same = (prefix + one)[: (i + 1) * block_size] == (prefix + other)[: (i + 1) * block_size]
        assert (a == b) == same


@given(token_lists, st.integers(0, 5), block_sizes)
def test_a_chain_can_be_extended(tokens: list[int], blocks: int, block_size: int) -> None:
    """Hashing on from a parent gives the same as hashing from the root: what a later event does."""
    packed = pack_tokens(tokens)
    whole = extend_chain(9, packed, block_size)
    cut = min(blocks, len(whole))
    parent = whole[cut - 1] if cut else 9

    assert whole == whole[:cut] + extend_chain(parent, memoryview(packed)[cut * block_size * 4 :], block_size)


@given(
    st.lists(st.tuples(st.binary(max_size=4), texts, texts, texts, block_sizes), min_size=2, max_size=20, unique=True)
)
def test_roots_differ_with_every_part(parts: list[tuple[bytes, str, str, str, int]]) -> None:
    """Secret, namespace, LoRA, salt and block size each separate chains, wherever the text stands."""
    assert len(parts) == len({chain_root(*part) for part in parts})


def test_root_frames_its_parts() -> None:
    """Moving a character from one part to the next gives another root."""
    roots = {
        chain_root(b"s", "ab", "", "", 16),
        chain_root(b"s", "a", "b", "", 16),
        chain_root(b"s", "", "ab", "", 16),
        chain_root(b"s", "", "", "ab", 16),
        chain_root(b"sab", "", "", "", 16),
    }

    assert len(roots) == 5


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 0), (16, 0), (17, 1), (32, 1), (33, 2)])
def test_block_of_the_last_token_is_never_spared(tokens: int, blocks: int) -> None:
    """vLLM recomputes the block that holds the last prompt token, even when it is cached."""
    assert blocks == matchable_blocks(tokens, 16)


def test_tokens_are_packed_little_endian() -> None:
    """uint32, little-endian, on every machine."""
    assert pack_tokens([1, 2**32 - 1]) == b"\x01\0\0\0\xff\xff\xff\xff"


@pytest.mark.parametrize("bad", [[-1], [2**32], ["a"], [1.5]])
def test_what_is_no_token_id_is_refused(bad: list[int]) -> None:
    """A clear error, never a wrong hash."""
    with pytest.raises((OverflowError, TypeError)):
        pack_tokens(bad)


@pytest.mark.parametrize("tokens", [8_000, 131_072])
def test_each_token_is_hashed_once(tokens: int) -> None:
    """However long the prompt: no block reads what came before it again."""

    class Watched(bytes):
        """Notes how much of it is read."""

        read = 0

        def __getitem__(self, part: Any) -> Any:
            piece = super().__getitem__(part)
            Watched.read += len(piece)
            return piece

    assert len(extend_chain(7, Watched(pack_tokens(range(tokens))), 16)) == tokens // 16
    assert Watched.read == tokens * 4
