"""Routed: prompts we sent to a replica, whose blocks no event has confirmed yet.

What makes a burst of one new prefix stay together: the first request's blocks are expected where it went,
long before the replica announces them. Synchronous, and told the time: no loop, no clock, no threads.

A prompt's blocks are expected while its request is in flight, counted, and for a moment after, in which
events confirm them. On a replica that sends no events they are all that is ever known: kept for a while,
the least recently used going first, never more than the replica's cache can hold beside what is in flight
and beside the answers, which engines keep like prompts. Deeper blocks always go before the shallower ones of
their prompt, so that what is expected has no holes.

Times are seconds on any monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.expected_blocks import NEVER, ExpectedBlocks
from gateway.kv.index import Chains
from gateway.kv.owner_masks import OwnerMasks

_GRACE_S = 1.0
_KEPT_S = 1800.0
_DEFAULT_CAPACITY = 262_144  # tokens
_MOST_GONE = 10_000  # blocks forgotten in one step, which takes 3 ms; the rest goes with the next
_NONE_IN_FLIGHT: Mapping[int, int] = {}


class RoutedEntry:
    """One request in flight, as :meth:`Routed.add` made it. For :meth:`Routed.end`, once."""

    __slots__ = ("block_size", "blocks", "ended", "replica")

    def __init__(self, replica: ExpectedBlocks, blocks: Sequence[int], block_size: int = 0) -> None:
        self.replica = replica
        self.blocks = blocks
        self.block_size = block_size  # tokens
        self.ended = False


class Routed:
    """Everything in blocks of a replica's own L0 block size: give :meth:`add` the chain of that size."""

    def __init__(
        self, *, grace_s: float = _GRACE_S, kept_s: float = _KEPT_S, default_capacity: int = _DEFAULT_CAPACITY
    ) -> None:
        self._grace_s = grace_s
        self._kept_s = kept_s
        self._default_capacity = default_capacity
        self._masks = OwnerMasks()
        self._replicas: dict[ReplicaKey, ExpectedBlocks] = {}
        self._keys: dict[int, ReplicaKey] = {}  # by bit

    def __repr__(self) -> str:
        in_flight = sum(len(replica.in_flight) for replica in self._replicas.values())
        return f"<Routed {in_flight} blocks in flight, {self._masks.owned_blocks()} expected>"

    def add(self, key: ReplicaKey, chains: Chains, *, now: float) -> RoutedEntry:
        """A prompt is on its way to ``key``: expect all its full blocks there.

        Of several chains the one with the smallest blocks is used; with none nothing is expected. What is left of
        prompts with blocks of another size is forgotten.
        """
        replica = self._replica(key)
        self._expire(replica, now)
        if not chains:
            return RoutedEntry(replica, ())
        block_size = min(chains)
        if block_size != replica.block_size:
            self._forget(replica, (replica.grace, replica.kept))
            replica.block_size = block_size
        blocks = chains[block_size]
        self._masks.add(replica.bit, blocks)
        in_flight = replica.in_flight
        for block in blocks:
            in_flight[block] = in_flight.get(block, 0) + 1
        if replica.kept:
            self._keep_to_capacity(replica)
        return RoutedEntry(replica, blocks, block_size)

    def end(self, entry: RoutedEntry, *, now: float, keep: bool, answer_blocks: float = 0.0) -> None:
        """The request is over, however it ended. ``keep``: its replica sends no events. Idempotent.

        ``answer_blocks``: how many its answer fills; the engine keeps them too.
        """
        if entry.ended:
            return
        entry.ended = True
        replica = entry.replica
        keep = keep and entry.block_size == replica.block_size
        lingering = replica.kept if keep else replica.grace
        gone_s = now + (self._kept_s if keep else self._grace_s)
        replica.next_gone_s = min(replica.next_gone_s, gone_s)
        if keep and entry.blocks:
            replica.keep_answer(entry.blocks, round(answer_blocks), gone_s)
        in_flight, take, move_to_end = replica.in_flight, replica.in_flight.pop, lingering.move_to_end
        for block in reversed(entry.blocks):
            requests = take(block, 0)
            if requests > 1:
                in_flight[block] = requests - 1
            lingering[block] = gone_s
            move_to_end(block)
        self._expire(replica, now)
        if keep:
            self._keep_to_capacity(replica)

    def match(self, chains: Chains, keys: Collection[ReplicaKey], *, now: float) -> Mapping[ReplicaKey, int]:
        """How long a prefix is expected at each key, in tokens. Keys where none is are left out."""
        wanted: dict[int, int] = {}
        for key in keys:
            replica = self._replicas.get(key)
            if replica is not None:
                self._expire(replica, now)
                wanted[replica.block_size] = wanted.get(replica.block_size, 0) | replica.bit
        expected: dict[ReplicaKey, int] = {}
        for block_size, owners in wanted.items():
            for run_owners, blocks in self._masks.gallop(chains.get(block_size, ()), owners):
                for key in self._keys_of(run_owners):
                    expected[key] = blocks * block_size
        return expected

    def in_flight(self, key: ReplicaKey) -> Mapping[int, int]:
        """Blocks of prompts in flight at ``key`` -> how many requests have them. It goes on changing."""
        replica = self._replicas.get(key)
        return replica.in_flight if replica else _NONE_IN_FLIGHT

    def set_capacity(self, key: ReplicaKey, tokens: int) -> None:
        """How many tokens the replica's cache holds: no more than that are kept."""
        replica = self._replica(key)
        if tokens != replica.capacity:
            replica.capacity = tokens
            self._keep_to_capacity(replica)

    def forget_kept(self, key: ReplicaKey) -> None:
        """Events tell of the replica again: what was kept for want of them counts no more."""
        replica = self._replicas.get(key)
        if replica is not None:
            self._forget(replica, (replica.kept,))

    def forget_past(self, key: ReplicaKey) -> None:
        """The replica's cache was emptied: only what is in flight is expected there."""
        replica = self._replicas.get(key)
        if replica is not None:
            self._forget(replica, (replica.grace, replica.kept))

    def expire(self, now: float) -> None:
        """Forget what is expected no more, also where nobody asks for it. Much of it takes several calls."""
        for replica in self._replicas.values():
            self._expire(replica, now)

    def forget_oldest(self, most: int) -> int:
        """Keep up to ``most`` blocks fewer, of the replica where one was kept longest; how many that were."""
        keeping = [replica for replica in self._replicas.values() if replica.kept]
        if not keeping:
            return 0
        replica = min(keeping, key=lambda each: next(iter(each.kept.values())))
        before = len(replica.kept)
        self._stop_expecting(replica, replica.take_oldest(most))
        return before - len(replica.kept)

    @property
    def entries(self) -> int:
        """What its memory is proportional to: blocks in flight, in grace or kept, by replica."""
        return sum([replica.entries for replica in self._replicas.values()])

    def drop(self, key: ReplicaKey) -> None:
        """Forget a replica. Its entries may still be ended."""
        replica = self._replicas.pop(key, None)
        if replica is not None:
            del self._keys[replica.bit]
            self._masks.retire(replica.bit)
            replica.bit = 0

    def _replica(self, key: ReplicaKey) -> ExpectedBlocks:
        replica = self._replicas.get(key)
        if replica is None:
            replica = ExpectedBlocks(self._masks.new_owner(), self._default_capacity)
            self._replicas[key] = replica
            self._keys[replica.bit] = key
        return replica

    def _keys_of(self, owners: int) -> Iterable[ReplicaKey]:
        while owners:
            bit = owners & -owners
            owners ^= bit
            yield self._keys[bit]

    def _expire(self, replica: ExpectedBlocks, now: float) -> None:
        if now < replica.next_gone_s:
            return
        replica.next_gone_s = NEVER
        for lingering in (replica.grace, replica.kept):
            gone: list[int] = []
            for block, gone_s in lingering.items():
                if gone_s > now or len(gone) == _MOST_GONE:
                    replica.next_gone_s = min(replica.next_gone_s, gone_s)
                    break
                gone.append(block)
            for block in gone:
                del lingering[block]
            if gone:
                self._stop_expecting(replica, replica.blocks_of(gone))

    def _forget(self, replica: ExpectedBlocks, lingering: Iterable[OrderedDict[int, float]]) -> None:
        for expected in lingering:
            if expected:
                gone = list(expected)
                expected.clear()
                self._stop_expecting(replica, replica.blocks_of(gone))

    def _keep_to_capacity(self, replica: ExpectedBlocks) -> None:
        """What is in flight takes its place first, as in the engine."""
        if not (replica.bit and replica.block_size):
            return
        capacity, left = replica.capacity // replica.block_size, _MOST_GONE
        while replica.kept and left > 0:
            excess = self._masks.blocks_of(replica.bit) + replica.answer_blocks - capacity
            if excess <= 0:
                return
            self._stop_expecting(replica, replica.take_oldest(min(excess, left)))
            left -= excess

    def _stop_expecting(self, replica: ExpectedBlocks, gone: Iterable[int]) -> None:
        in_flight, grace, kept = replica.in_flight, replica.grace, replica.kept
        if replica.bit:
            lost = [block for block in gone if block not in in_flight and block not in grace and block not in kept]
            if lost:
                self._masks.remove(replica.bit, lost)
