"""BlockChains: equal ids only for equal prefixes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay.block_chains import BlockChains

IDS = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=8)


def shared(one: tuple[int, ...] | list[int], other: tuple[int, ...] | list[int]) -> int:
    """Leading blocks that two chains share."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(IDS)
def test_two_chains_share_a_number_exactly_where_they_share_a_prefix(chains: list[list[int]]) -> None:
    """Whatever the ids are: also such that stand for a block's own text."""
    blocks = BlockChains()
    numbered = [blocks.numbered(chain) for chain in chains]
    for ids, one in zip(chains, numbered, strict=True):
        for other_ids, other in zip(chains, numbered, strict=True):
            common = shared(ids, other_ids)
            assert one[:common] == other[:common]
            assert not set(one[common:]) & set(other[common:])


def test_a_block_repeated_within_a_prompt_is_another_block() -> None:
    """Padding, say."""
    blocks = BlockChains()
    assert blocks.numbered([7, 7, 7]) == (0, 1, 2)
    assert len(blocks) == 3
