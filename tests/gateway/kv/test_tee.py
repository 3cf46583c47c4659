"""Several writers hear the same."""

from __future__ import annotations

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tee import Tee
from gateway.kv.tiers import Tier

KEY = ReplicaKey("m", "a")


def test_each_writer_is_told_everything() -> None:
    """Begin, apply, clear and drop leave the same in all of them."""
    indexes = [MemoryIndex(), MemoryIndex()]
    tee = Tee(*indexes)
    assert "MemoryIndex" in repr(tee)

    def held() -> list[list[int]]:
        return [[index.owned(KEY, tier) for tier in Tier] for index in indexes]

    tee.begin(KEY, {Tier.L0: [1, 2, 3], Tier.L1: [4]})
    tee.apply(KEY, Tier.L0, [5], [1, 2])
    assert held() == [[2, 1, 0]] * 2
    tee.clear(KEY, Tier.L0)
    assert held() == [[0, 1, 0]] * 2
    tee.drop(KEY)
    assert [list(index.keys()) for index in indexes] == [[], []]
