"""Bitmasks of owners: against plain sets, and bits that come back clean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.kv.owner_masks import OwnerMasks, Run

CHAIN = list(range(1000, 1200))


def lengths(runs: list[Run], bits: list[int]) -> list[int]:
    """The run of each bit; 0 where it is in none."""
    return [next((run.blocks for run in runs if run.owners & bit), 0) for bit in bits]


@given(st.lists(st.integers(0, len(CHAIN)), min_size=1, max_size=70))
def test_a_gallop_finds_every_owners_prefix(held: list[int]) -> None:
    """However many owners and however different their lengths."""
    masks = OwnerMasks()
    bits = [masks.new_owner() for _ in held]
    for bit, blocks in zip(bits, held):
        masks.add(bit, CHAIN[:blocks])
    wanted = sum(bits[::2])

    expected = [blocks if bit & wanted else 0 for bit, blocks in zip(bits, held)]
    assert lengths(masks.gallop(CHAIN, wanted), bits) == expected
    assert lengths(masks.walk(CHAIN, wanted), bits) == expected


@given(st.sets(st.sampled_from(CHAIN[:40]), max_size=30), st.sets(st.sampled_from(CHAIN[:40]), max_size=10))
def test_a_walk_is_exact_where_ownership_has_holes(held: set[int], shared: set[int]) -> None:
    """Scattered blocks are no prefix, and what is shared fills holes for all."""
    masks, storage = OwnerMasks(), OwnerMasks()
    bit = masks.new_owner()
    masks.add(bit, held)
    storage.add(storage.new_owner(), shared)

    for other, usable in ((None, held), (storage, held | shared)):
        prefix = next((n for n, block in enumerate(CHAIN) if block not in usable), len(CHAIN))
        assert lengths(masks.walk(CHAIN, bit, other), [bit]) == [prefix]


def test_scattered_blocks_near_the_start_are_no_prefix_to_a_gallop_either() -> None:
    """Blocks 0, 2 and 3 are a prefix of one; 1, 2 and 3 are none."""
    masks = OwnerMasks()
    first, second = masks.new_owner(), masks.new_owner()
    masks.add(first, [CHAIN[0], CHAIN[2], CHAIN[3]])
    masks.add(second, CHAIN[1:4])

    assert lengths(masks.gallop(CHAIN, first | second), [first, second]) == [1, 0]


def test_a_retired_bit_comes_back_only_when_it_is_clean() -> None:
    """Nobody inherits blocks; until the walk is over a newcomer gets a bit of its own."""
    masks = OwnerMasks()
    old = masks.new_owner()
    masks.add(old, range(10_000))
    masks.retire(old)

    newcomer = masks.new_owner()
    assert newcomer != old
    assert masks.gallop(range(100), newcomer) == []
    assert masks.owned_blocks() == 0
    while masks.sweep(16):
        pass
    assert masks.new_owner() == old
    assert masks.gallop(range(100), old) == []


def test_writes_sweep_by_themselves_and_bits_stay_few() -> None:
    """An owner that is forgotten again and again does not make masks grow without end."""
    masks = OwnerMasks()
    bit = masks.new_owner()
    largest = 0
    for round_ in range(500):
        masks.add(bit, range(round_, round_ + 50))
        masks.retire(bit)
        bit = masks.new_owner()
        largest = max(largest, bit.bit_length())

    assert largest < 150


def test_disown_takes_a_block_from_everybody() -> None:
    """Counts follow, and retired owners are not counted twice."""
    masks = OwnerMasks()
    first, second, gone = (masks.new_owner() for _ in range(3))
    for bit in (first, second, gone):
        masks.add(bit, [1, 2])
    masks.retire(gone)

    masks.disown([1, 3])

    assert (masks.blocks_of(first), masks.blocks_of(second)) == (1, 1)
    assert (masks.owners(1), masks.owners(2)) == (0, first | second)
