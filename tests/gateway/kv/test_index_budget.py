"""However much is sent and stored, the memory of the index levels off, and what is known stays true."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.events import BlockRemoved, BlockStored, EventBatch
from gateway.kv.index_budget import (
    BYTES_PER_CHUNK,
    BYTES_PER_HASH,
    BYTES_PER_OWNER,
    BYTES_PER_SENT,
    MAX_BLOCKS_PER_TIER,
    IndexBudget,
)
from gateway.kv.indexer import Indexer
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from tests.fakes.background import running
from tests.fakes.waiting import eventually

A, B = ReplicaKey("model", "a"), ReplicaKey("model", "b")
SECRET = b"secret"
NOWHERE = EventSource("tcp://127.0.0.1:9", "tcp://127.0.0.1:9")
BLOCK = 4


def hashes(name: int) -> list[int]:
    """Ten blocks that no other name has, as their publisher calls them."""
    return [1000 * name + number for number in range(1, 11)]


class Side:
    """What one process knows."""

    def __init__(
        self,
        limit_mb: float | None = 1.0,
        *,
        max_blocks_per_tier: int = MAX_BLOCKS_PER_TIER,
        l2: L2Estimate | None = None,
    ) -> None:
        self.memory = MemoryIndex()
        self.routed = Routed(default_capacity=10**9)
        self.indexer = Indexer(
            self.memory,
            secret=SECRET,
            restarted=lambda key: key,
            caught_up=lambda _: None,
            wall_clock=lambda: 0.0,
        )
        for key in (A, B):
            self.indexer.follow(key, NOWHERE)
        self.now = 0.0
        self.budget = IndexBudget(
            self.indexer,
            self.memory,
            self.routed,
            limit_mb=limit_mb,
            clock=lambda: self.now,
            max_blocks_per_tier=max_blocks_per_tier,
            l2=l2,
        )

    def store(self, name: int, key: ReplicaKey = A) -> None:
        """A prompt's ten blocks entered a replica's cache."""
        applier = self.indexer.applier(key)
        assert applier is not None
        applier.apply(EventBatch(0.0, [BlockStored(hashes(name), None, _tokens(name), BLOCK)]))

    def matched(self, name: int, key: ReplicaKey = A) -> int:
        """In blocks."""
        chain = extend_chain(chain_root(SECRET, "model", "", "", BLOCK), _tokens(name), BLOCK)
        return (self.memory.match_now({BLOCK: chain}, [key])[key].l0 or 0) // BLOCK

    def relieve(self) -> int:
        """If it has to be, all steps of it; how many."""
        return sum(1 for _ in self.budget.relieve()) if self.budget.look() else 0


def _tokens(name: int) -> bytes:
    return pack_tokens(hashes(name) * BLOCK)


def _sent(side: Side, names: Iterator[int]) -> None:
    for name in names:
        chain = hashes(name)
        side.routed.end(side.routed.add(A, {16: chain}, now=0), now=0, keep=True)


def test_without_events_memory_levels_off() -> None:
    """200,000 distinct prompts: what was sent last is known, and no more than the bound allows ever stays."""
    side = Side(limit_mb=2.0)
    for name in range(200_000):
        chain = hashes(name)[:2]
        side.routed.end(side.routed.add(A, {16: chain}, now=0), now=0, keep=True)
        if name % 5_000 == 4_999:
            side.relieve()
            assert side.budget.used_bytes <= 2_000_000

    assert side.routed.match({16: hashes(199_999)[:2]}, [A], now=0) == {A: 32}
    assert side.routed.match({16: hashes(0)[:2]}, [A], now=0) == {}
    assert side.budget.given_up["sent"] > 380_000


def test_the_estimate_is_about_right() -> None:
    """Within a factor of two, though dictionaries grow in leaps."""
    side = Side(limit_mb=None)
    tracemalloc.start()
    for name in range(800):
        side.store(name)
    _sent(side, iter(range(800)))
    actual, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 0.5 < side.budget.used_bytes / actual < 2


def test_with_events_memory_levels_off() -> None:
    """A cache that never evicts: the latest is known whole, and what goes leaves no part of itself."""
    side = Side(limit_mb=1.0)
    for name in range(4_000):
        side.store(name)
        if name % 200 == 0:
            side.relieve()
    side.relieve()

    assert side.budget.used_bytes <= 1_000_000
    assert side.matched(3_999) == 10
    assert side.matched(0) == 0
    assert {side.matched(name) for name in range(2_000)} == {0}
    assert side.memory.owned(A, Tier.L0) > 2_000
    assert side.budget.given_up["held"] > 30_000


def test_what_is_asked_for_outlives_what_is_not() -> None:
    """One prompt of the first is matched again and again."""
    side = Side(limit_mb=0.1)
    side.store(0)
    for name in range(1, 200):
        side.store(name)
        side.matched(0)
        side.relieve()

    assert side.budget.given_up["held"] > 500
    assert (side.matched(0), side.matched(1), side.matched(199)) == (10, 0, 10)


def test_the_largest_gives_up_first() -> None:
    """A replica of which little is known loses nothing to one of which much is."""
    side = Side(limit_mb=1.0)
    for name in range(20):
        side.store(name, B)
    for name in range(500):
        side.store(name, A)
    side.relieve()

    assert side.memory.owned(B, Tier.L0) == 200
    assert side.memory.owned(A, Tier.L0) < 4_000


def test_hashes_that_name_nothing_go_before_anything_else() -> None:
    """A cache that evicts as it stores keeps all that is known of it, and what was sent is kept too."""
    side = Side(limit_mb=2.0)
    _sent(side, iter(range(100)))
    for name in range(900):
        side.store(name)
        applier = side.indexer.applier(A)
        assert applier is not None
        if name >= 100:
            applier.apply(EventBatch(0.0, [_evicted(name - 100)]))
    held, resolved = side.memory.owned(A, Tier.L0), side.budget.used_bytes
    side.budget.limit_bytes = resolved - BYTES_PER_HASH
    side.relieve()

    assert side.memory.owned(A, Tier.L0) == held == 1_000
    assert side.budget.given_up["hashes"] > 0
    assert (side.budget.given_up["held"], side.budget.given_up["sent"]) == (0, 0)


def test_what_is_expected_no_more_goes_first() -> None:
    """Though no request has come that would have noticed."""
    side = Side(limit_mb=0.1)
    for name in range(20):
        side.store(name)
        side.routed.end(side.routed.add(B, {16: hashes(name)}, now=0), now=0, keep=False)
    for name in range(20, 40):
        side.routed.end(side.routed.add(B, {16: hashes(name)}, now=0), now=0, keep=False)
    side.now = 5.0
    side.relieve()

    assert side.budget.used_bytes == 200 * (BYTES_PER_OWNER + BYTES_PER_HASH)
    assert side.budget.given_up.total() == 0


@pytest.mark.parametrize("medium", ["GPU", "CPU"])
@pytest.mark.parametrize("limit_mb", [None, 100.0])
def test_a_publisher_that_never_removes_loses_what_helps_least(medium: str, limit_mb: float | None) -> None:
    """Though memory is left: never more than any cache holds. What all prompts begin with stays, the latest whole."""
    side = Side(limit_mb, max_blocks_per_tier=200)
    applier = side.indexer.applier(A)
    assert applier is not None
    tier = Tier.L0 if medium == "GPU" else Tier.L1
    beginning = BlockStored(hashes(0), None, _tokens(0), BLOCK, medium=medium)
    for name in range(1, 100):
        rest = BlockStored(hashes(name), hashes(0)[-1], _tokens(name), BLOCK, medium=medium)
        applier.apply(EventBatch(0.0, [beginning, rest] if name == 1 else [rest]))
        side.relieve()
        assert applier.owned_blocks(tier) <= 200

    root = chain_root(SECRET, "model", "", "", BLOCK)
    for name, known in ((1, 10), (99, 20)):
        chain = extend_chain(root, _tokens(0) + _tokens(name), BLOCK)
        assert side.memory.match_now({BLOCK: chain}, [A])[A].usable == known * BLOCK


def test_below_the_bound_nothing_happens() -> None:
    """Nor without one; what is used is told all the same."""
    for side in (Side(limit_mb=10.0), Side(limit_mb=None)):
        _sent(side, iter(range(3)))
        side.store(1)

        assert side.relieve() == 0
        assert side.budget.used_bytes == 10 * (BYTES_PER_OWNER + BYTES_PER_HASH) + 30 * BYTES_PER_SENT
        assert side.budget.status()["given_up"] == {"held": 0, "hashes": 0, "sent": 0}


def test_an_estimate_is_given_up_before_what_is_known() -> None:
    """It counts as memory like all else, the oldest goes first, and time ends it where nobody asks."""
    estimate = L2Estimate(ttl_s=60.0)
    side = Side(limit_mb=1.5, l2=estimate)
    for name in range(100):
        side.store(name)
    used = side.budget.used_bytes
    for name in range(1_000, 1_700):
        estimate.finished(hashes(name), 256, now=side.now)
    assert side.budget.used_bytes == used + 7_000 * BYTES_PER_CHUNK
    assert side.relieve() > 0

    assert [side.matched(name) for name in (0, 99)] == [10, 10]
    assert (side.budget.given_up["estimated"], side.budget.given_up["held"]) == (5_000, 0)
    assert estimate.match({256: hashes(1_000)}, now=0.0) == 0
    assert estimate.match({256: hashes(1_699)}, now=0.0) == 2560
    assert side.budget.status()["l2"] == estimate.status(side.now)
    side.now = 60.0
    side.budget.look()
    assert estimate.chunks == 0


def test_a_bound_that_nothing_fits_into_ends_all_the_same() -> None:
    """Everything is given up that can be."""
    side = Side(limit_mb=0.000_1)
    side.store(1)
    entry = side.routed.add(A, {16: hashes(1)}, now=0)
    side.relieve()

    assert (side.matched(1), side.memory.block_owners()) == (0, 0)
    assert side.budget.used_bytes == 10 * BYTES_PER_SENT
    side.routed.end(entry, now=0, keep=False)


def test_a_replica_that_is_replaced_meanwhile_is_left_alone() -> None:
    """Its new process's blocks are not those that the pass began with."""
    side = Side(limit_mb=0.05)
    for name in range(100):
        side.store(name)
    assert side.budget.look()
    steps = side.budget.relieve()
    next(steps)
    side.indexer.restart_all()
    side.store(3)
    for _ in steps:
        pass

    assert side.matched(3) == 10


async def test_it_runs_by_itself() -> None:
    """In the background, for as long as the process does."""
    side = Side(limit_mb=0.05)
    for name in range(100):
        side.store(name)
    async with running(side.budget.run()):
        await eventually(lambda: side.budget.used_bytes <= 50_000)

    assert side.matched(99) == 10


def _evicted(name: int) -> BlockRemoved:
    return BlockRemoved(hashes(name))
