"""Routed: prompts we sent to a replica, whose blocks no event has confirmed yet.

What makes a burst of one new prefix stay together: the first request's blocks are expected where it went,
long before the replica announces them. Synchronous, and told the time: no loop, no clock, no threads.

A prompt's blocks are expected while its request is in flight, counted, and for a moment after, in which
events confirm them. On a replica that sends no events they are all that is ever known: kept for a while,
the least recently used going first, never more than the replica's capacity. Deeper blocks always go before
the shallower ones of their prompt, so that what is expected has no holes.

Times are seconds on any monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import Chains
from gateway.kv.owner_masks import OwnerMasks

_GRACE_S = 1.0
_KEPT_S = 1800.0
_DEFAULT_CAPACITY = 16_384  # blocks
_MOST_GONE = 10_000  # blocks forgotten in one step, which takes 3 ms; the rest goes with the next
_NEVER = float("inf")
_NONE_IN_FLIGHT: Mapping[int, int] = {}


class RoutedEntry:
    """One request in flight, as :meth:`Routed.add` made it. For :meth:`Routed.end`, once."""

    __slots__ = ("blocks", "ended", "replica")

    def __init__(self, replica: _Replica, blocks: Sequence[int]) -> None:
        self.replica = replica
        self.blocks = blocks
        self.ended = False


class _Replica:
    """What is expected of one replica. A block's bit is set while it is in any of the three dictionaries."""

    __slots__ = ("bit", "block_size", "capacity", "grace", "in_flight", "kept", "next_gone_s")

    def __init__(self, bit: int, capacity: int) -> None:
        self.bit = bit
        self.capacity = capacity  # blocks
        self.block_size = 0  # tokens; of the prompt added last
        self.in_flight: dict[int, int] = {}  # block -> requests that have it
        self.grace: OrderedDict[int, float] = OrderedDict()  # block -> when it goes, soonest first
        self.kept: OrderedDict[int, float] = OrderedDict()
        self.next_gone_s = _NEVER  # nothing goes before that


class Routed:
    """Everything in blocks of a replica's own L0 block size: give :meth:`add` the chain of that size."""

    def __init__(
        self, *, grace_s: float = _GRACE_S, kept_s: float = _KEPT_S, default_capacity: int = _DEFAULT_CAPACITY
    ) -> None:
        self._grace_s = grace_s
        self._kept_s = kept_s
        self._default_capacity = default_capacity
        self._masks = OwnerMasks()
        self._replicas: dict[ReplicaKey, _Replica] = {}
        self._keys: dict[int, ReplicaKey] = {}  # by bit

    def __repr__(self) -> str:
        in_flight = sum(len(replica.in_flight) for replica in self._replicas.values())
        return f"<Routed {in_flight} blocks in flight, {self._masks.owned_blocks()} expected>"

    def add(self, key: ReplicaKey, chains: Chains, *, now: float) -> RoutedEntry:
        """A prompt is on its way to ``key``: expect all its full blocks there.

        Of several chains the one with the smallest blocks is used; with none nothing is expected.
        """
        replica = self._replica(key)
        self._expire(replica, now)
        if not chains:
            return RoutedEntry(replica, ())
        replica.block_size = min(chains)
        blocks = chains[replica.block_size]
        self._masks.add(replica.bit, blocks)
        in_flight = replica.in_flight
        for block in blocks:
            in_flight[block] = in_flight.get(block, 0) + 1
        return RoutedEntry(replica, blocks)

    def end(self, entry: RoutedEntry, *, now: float, keep: bool) -> None:
        """The request is over, however it ended. ``keep``: its replica sends no events. Idempotent."""
        if entry.ended:
            return
        entry.ended = True
        replica = entry.replica
        lingering = replica.kept if keep else replica.grace
        gone_s = now + (self._kept_s if keep else self._grace_s)
        replica.next_gone_s = min(replica.next_gone_s, gone_s)
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

    def set_capacity(self, key: ReplicaKey, blocks: int) -> None:
        """How many blocks the replica's cache has: no more than that are kept."""
        replica = self._replica(key)
        replica.capacity = blocks
        self._keep_to_capacity(replica)

    def forget_kept(self, key: ReplicaKey) -> None:
        """Events tell of the replica again: what was kept for want of them counts no more."""
        replica = self._replicas.get(key)
        if replica is not None and replica.kept:
            gone = list(replica.kept)
            replica.kept.clear()
            self._stop_expecting(replica, gone)

    def drop(self, key: ReplicaKey) -> None:
        """Forget a replica. Its entries may still be ended."""
        replica = self._replicas.pop(key, None)
        if replica is not None:
            del self._keys[replica.bit]
            self._masks.retire(replica.bit)
            replica.bit = 0

    def _replica(self, key: ReplicaKey) -> _Replica:
        replica = self._replicas.get(key)
        if replica is None:
            replica = _Replica(self._masks.new_owner(), self._default_capacity)
            self._replicas[key] = replica
            self._keys[replica.bit] = key
        return replica

    def _keys_of(self, owners: int) -> Iterable[ReplicaKey]:
        while owners:
            bit = owners & -owners
            owners ^= bit
            yield self._keys[bit]

    def _expire(self, replica: _Replica, now: float) -> None:
        if now < replica.next_gone_s:
            return
        replica.next_gone_s = _NEVER
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
                self._stop_expecting(replica, gone)

    def _keep_to_capacity(self, replica: _Replica) -> None:
        gone: list[int] = []
        while len(replica.kept) > replica.capacity:
            gone.append(replica.kept.popitem(last=False)[0])
        if gone:
            self._stop_expecting(replica, gone)

    def _stop_expecting(self, replica: _Replica, gone: Iterable[int]) -> None:
        in_flight, grace, kept = replica.in_flight, replica.grace, replica.kept
        if replica.bit:
            lost = [block for block in gone if block not in in_flight and block not in grace and block not in kept]
            self._masks.remove(replica.bit, lost)
