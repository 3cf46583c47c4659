"""What only the index in memory can do. What every index does is ``tests/gateway/shared/test_index_behaviour.py``."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import PrefixIndex
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from tests.gateway.kv.index_model import CHAINS_OF_BLOCKS, KEYS, STEPS, A, B, IndexModel, apply_step

GPU = [101, 102, 103, 104]
CHUNKS = [201, 202, 203]


def test_it_is_a_prefix_index() -> None:
    """The frozen protocol, as the type checker sees it."""
    index: PrefixIndex = MemoryIndex()

    assert "0 block-owners" in repr(index)


def test_nobody_else_has_to_be_asked() -> None:
    """Of any replica."""
    assert MemoryIndex().knows([A, B])


def test_it_tells_how_much_each_replica_owns() -> None:
    """By tier, and over all; of a replica it does not know nothing."""
    index = MemoryIndex()
    index.begin(A, {Tier.L0: GPU[:1], Tier.L1: CHUNKS[:2]})

    assert (index.owned(A, Tier.L0), index.owned(A, Tier.L1), index.owned(B, Tier.L0)) == (1, 2, 0)
    assert index.block_owners() == 3


def test_a_dropped_replica_leaves_nothing_behind() -> None:
    """No owner, no memory once swept, and writes for it are ignored."""
    index = MemoryIndex()
    for key in (A, B):
        index.begin(key, {Tier.L0: range(5000)})

    index.drop(A)
    index.apply(A, Tier.L0, GPU, ())
    while index.sweep(64):
        pass

    assert list(index.keys()) == [B]
    assert (index.block_owners(), index.owned(A, Tier.L0)) == (5000, 0)
    assert not index.holds(A, Tier.L0, 1)
    assert index.holds(B, Tier.L0, 1)


@given(
    steps=st.lists(STEPS | st.just("sweep"), max_size=60),
    chains=st.lists(CHAINS_OF_BLOCKS, min_size=1, max_size=3),
)
@settings(max_examples=200)
def test_bits_are_never_mixed_up(
    steps: list[tuple[str, ReplicaKey, Tier, list[int]] | str], chains: list[list[int]]
) -> None:
    """Whatever was dropped, and swept in between: galloping equals counting."""
    index, model = MemoryIndex(), IndexModel()
    for step in steps:
        if isinstance(step, str):
            index.sweep(100)
        else:
            apply_step(index, model, *step)
        for asked in chains:
            matched = index.match_now({1: asked}, KEYS)
            assert matched == {key: tokens for key in KEYS if (tokens := model.match(asked, key)) is not None}
    for key, held in model.held.items():
        assert index.owned(key, Tier.L0) == len(held[Tier.L0])


def test_what_is_asked_for_is_noted_on_wish() -> None:
    """The last block of each match, by who owns it, the latest first; nothing before, nor of who is not known."""
    index = MemoryIndex()
    index.begin(A, {Tier.L0: [1, 2, 3]})
    index.begin(B, {Tier.L0: [1]})
    index.match_now({16: [1, 2]}, [A, B])
    assert index.asked_of(A) == []

    index.note_asked(True)
    for chain in ([1, 2, 9], [7], [1, 2, 3]):
        index.match_now({16: chain}, [A, B])
        index.note_asked(True)
    assert (index.asked_of(A), index.asked_of(B), index.asked_of(A._replace(rank=5))) == ([3, 2], [1, 1], [])

    index.note_asked(False)
    assert index.asked_of(A) == []
