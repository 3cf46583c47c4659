"""What each replica holds, the slow and obvious way, and random histories of it: for any index to be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import PrefixIndex
from gateway.kv.tiers import Tier, TierTokens

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")


@dataclass
class IndexModel:
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
CHAINS_OF_BLOCKS = st.lists(st.integers(1, 2), min_size=1, max_size=7).map(
    lambda steps: [int("".join(map(str, steps[: n + 1]))) for n in range(len(steps))]
)
KEYS = [A, B, ReplicaKey("m", "c"), A._replace(rank=1)]
_KEY = st.sampled_from(KEYS)
STEPS = st.tuples(
    st.sampled_from(["store", "store", "store", "evict", "clear", "begin", "drop"]),
    _KEY,
    st.sampled_from(Tier),
    CHAINS_OF_BLOCKS,
)


def apply_step(index: PrefixIndex, model: IndexModel, name: str, key: ReplicaKey, tier: Tier, chain: list[int]) -> None:
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
