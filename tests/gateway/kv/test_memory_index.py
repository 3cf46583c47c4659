"""The index in memory, against a plain model of what each replica holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import PrefixIndex
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier, TierTokens

A, B, OTHER = ReplicaKey("m", "a"), ReplicaKey("m", "b"), ReplicaKey("n", "a")
GPU = [101, 102, 103, 104]  # blocks of 16 tokens
CHUNKS = [201, 202, 203]  # chunks of 64 tokens
CHAINS = {16: GPU, 64: CHUNKS}


def index_of(*keys: ReplicaKey) -> MemoryIndex:
    """An index that has begun these keys."""
    index = MemoryIndex()
    for key in keys:
        index.begin(key, {})
    return index


def test_it_is_a_prefix_index() -> None:
    """The frozen protocol, as the type checker sees it."""
    index: PrefixIndex = MemoryIndex()

    assert "0 block-owners" in repr(index)


async def test_a_tier_that_was_never_told_of_is_unknown() -> None:
    """Nothing held is 0 tokens, nothing known is no number, an unknown replica is absent."""
    index = index_of(A)
    index.apply(B, Tier.L0, GPU, ())

    assert await index.match(CHAINS, [A, B]) == {A: TierTokens(0, None, None)}


def test_each_tier_counts_from_the_first_token_in_its_own_blocks() -> None:
    """L0 alone, L1 alone, and L1 with storage filling its holes."""
    index = index_of(A, B)
    index.apply(A, Tier.L0, GPU[:3], ())
    index.apply(A, Tier.L1, [CHUNKS[0], CHUNKS[2]], ())
    index.apply(B, Tier.L2, [CHUNKS[1]], ())

    assert index.match_now(CHAINS, [A, B]) == {A: TierTokens(48, 64, 192), B: TierTokens(0, None, 0)}


def test_a_storage_block_is_everybodys_and_goes_for_everybody() -> None:
    """Whoever announced it; other namespaces know nothing of it."""
    index = index_of(A, B, OTHER)
    index.apply(A, Tier.L2, CHUNKS, ())
    index.apply(B, Tier.L2, CHUNKS[:1], ())
    assert index.match_now(CHAINS, [B])[B] == TierTokens(0, None, 192)
    assert index.match_now(CHAINS, [OTHER])[OTHER] == TierTokens(0, None, None)

    index.apply(B, Tier.L2, (), CHUNKS[:1])
    assert index.match_now(CHAINS, [A])[A] == TierTokens(0, None, 0)

    index.drop(A)
    index.drop(B)
    index.begin(A, {})
    assert index.match_now(CHAINS, [A])[A] == TierTokens(0, None, None)


def test_clearing_one_tier_leaves_the_others() -> None:
    """AllBlocksCleared is about the GPU."""
    index = index_of(A, B)
    for key in (A, B):
        index.apply(key, Tier.L0, GPU, ())
        index.apply(key, Tier.L1, CHUNKS, ())

    index.clear(A, Tier.L0)

    assert index.match_now(CHAINS, [A, B]) == {A: TierTokens(0, 192, None), B: TierTokens(64, 192, None)}
    assert (index.owned(A, Tier.L0), index.owned(A, Tier.L1)) == (0, 3)


def test_a_snapshot_replaces_what_was_there() -> None:
    """Beginning a known key anew holds exactly the snapshot."""
    index = index_of(A)
    index.apply(A, Tier.L0, GPU, ())

    index.begin(A, {Tier.L0: GPU[:1], Tier.L1: CHUNKS[:2]})

    assert index.match_now(CHAINS, [A])[A] == TierTokens(16, 128, None)
    assert index.block_owners() == 3


def test_a_dropped_replica_leaves_nothing_behind() -> None:
    """No owner, no memory once swept, and writes for it are ignored."""
    index = index_of(A, B)
    for key in (A, B):
        index.apply(key, Tier.L0, range(5000), ())

    index.drop(A)
    index.apply(A, Tier.L0, GPU, ())
    index.clear(A, Tier.L0)
    index.drop(A)
    while index.sweep(64):
        pass

    assert list(index.keys()) == [B]
    assert (index.block_owners(), index.owned(A, Tier.L0)) == (5000, 0)
    assert not index.holds(A, Tier.L0, 1)
    assert index.holds(B, Tier.L0, 1)


@dataclass
class _Model:
    """What each replica holds, the slow and obvious way."""

    held: dict[ReplicaKey, dict[Tier, set[int]]] = field(default_factory=dict)
    told: set[tuple[ReplicaKey, Tier]] = field(default_factory=set)

    def match(self, chain: Sequence[int], key: ReplicaKey) -> TierTokens | None:
        if key not in self.held:
            return None
        mine = self.held[key]
        storage = {own for other in self.held if other.namespace == key.namespace for own in self.held[other][Tier.L2]}
        knows_storage = any(other.namespace == key.namespace and tier is Tier.L2 for other, tier in self.told)
        return TierTokens(
            prefix(chain, mine[Tier.L0]),
            prefix(chain, mine[Tier.L1]) if (key, Tier.L1) in self.told else None,
            prefix(chain, mine[Tier.L1] | storage) if knows_storage else None,
        )


def prefix(chain: Sequence[int], held: set[int]) -> int:
    """How many leading blocks of a chain are held."""
    return next((n for n, block in enumerate(chain) if block not in held), len(chain))


#: A tree of chains by block hash: child n of a block is 10 * block + n.
_CHAIN = st.lists(st.integers(1, 2), min_size=1, max_size=7).map(
    lambda steps: [int("".join(map(str, steps[: n + 1]))) for n in range(len(steps))]
)
_KEY = st.sampled_from([A, B, ReplicaKey("m", "c"), A._replace(incarnation=1)])
_STEP = st.tuples(
    st.sampled_from(["store", "store", "store", "evict", "clear", "begin", "drop", "sweep"]),
    _KEY,
    st.sampled_from(Tier),
    _CHAIN,
)


@given(steps=st.lists(_STEP, max_size=60), chains=st.lists(_CHAIN, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_it_answers_as_the_model_does(
    steps: list[tuple[str, ReplicaKey, Tier, list[int]]], chains: list[list[int]]
) -> None:
    """Random stores, evictions, clears, snapshots and drops: galloping equals counting, bits never leak.

    L0 stores whole prefixes and evicts whole subtrees, as vLLM does; the other tiers scatter.
    """
    index, model = MemoryIndex(), _Model()
    keys = [A, B, ReplicaKey("m", "c"), A._replace(incarnation=1)]
    for name, key, tier, chain in steps:
        apply_step(index, model, name, key, tier, chain)
        for asked in chains:
            matched = index.match_now({1: asked}, keys)
            assert matched == {key: tokens for key in keys if (tokens := model.match(asked, key)) is not None}
    for key, held in model.held.items():
        assert index.owned(key, Tier.L0) == len(held[Tier.L0])


def apply_step(index: MemoryIndex, model: _Model, name: str, key: ReplicaKey, tier: Tier, chain: list[int]) -> None:
    """The same change to both."""
    known = model.held.get(key)
    match name:
        case "begin":
            index.begin(key, {tier: chain})
            model.told = {entry for entry in model.told if entry[0] != key} | {(key, tier)}
            model.held[key] = {each: set(chain if each is tier else ()) for each in Tier}
        case "drop":
            index.drop(key)
            model.held.pop(key, None)
            model.told = {entry for entry in model.told if entry[0] != key}
        case "sweep":
            index.sweep(100)
        case "clear":
            index.clear(key, tier)
            if known:
                known[tier].clear()
        case "store":
            blocks = chain if tier is Tier.L0 else chain[-2:]
            index.apply(key, tier, blocks, ())
            if known:
                known[tier].update(blocks)
                model.told.add((key, tier))
        case _ if known:
            gone = {block for block in known[tier] if str(block).startswith(str(chain[-1]))}
            index.apply(key, tier, (), gone)
            for other in model.held.values() if tier is Tier.L2 else [known]:
                other[tier] -= gone
            model.told.add((key, tier))
