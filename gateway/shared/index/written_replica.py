"""WrittenReplica: one replica's entries in Redis, as the process sees them that may write them.

Pure: makes commands and reads their answers. The sets of an epoch hold what the replica holds, and one member
more, the sentinel, since a set that loses its last member is no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.block_bytes import members
from gateway.kv.tiers import Tier
from gateway.shared.index.pending_changes import Batch, PendingChanges
from gateway.shared.index.writer_lock import ENTRY_S, SETS_S
from gateway.shared.link.keys import Keys
from gateway.shared.link.script import Command

_SENTINEL = b"@"
#: Members in one command: Redis serves nobody else meanwhile.
_MEMBERS_PER_COMMAND = 2_000
#: Commands of a snapshot in one pipeline.
_COMMANDS_PER_PIPELINE = 8
#: Words of several commands in one pipeline, at most: it must be answered within the time-out.
_WORDS_PER_PIPELINE = _MEMBERS_PER_COMMAND * _COMMANDS_PER_PIPELINE
#: Blocks that may always be pending.
_OVERDUE_FROM = 10_000

#: Between two losses that have nothing to do with each other.
_FORGIVEN_S = 60.0
_LONGEST_PAUSE_S = 60.0

Owned = Mapping[Tier, Collection[int]]


class Written(NamedTuple):
    """What was pending for one set, as commands. The last one answers how many members the set has then."""

    tier: Tier
    batch: Batch
    commands: list[Command]
    size: int | None  # what it must answer; ``None``: cannot be told


class WrittenReplica:
    """``epoch`` 0: this process does not write it. Times are the event loop's."""

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.epoch = 0
        self.details_due = False
        self.reopens_s = float("-inf")  # when a new epoch may be opened
        self._lost_s = float("-inf")
        self._pause_s = 0.0
        self._pending: dict[Tier, PendingChanges] = {}
        self._sizes: dict[Tier, int] = {}  # members that each set has once all that is pending is written

    def __repr__(self) -> str:
        return f"<WrittenReplica {self.key.replica_id} in epoch {self.epoch}>"

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """That were ever told of in this epoch: each has a set."""
        return tuple(sorted(self._sizes))

    @property
    def changed(self) -> bool:
        """Whether anything is to be written."""
        return any(self._pending.values())

    @property
    def pending(self) -> int:
        """Blocks that are to be written."""
        return sum(map(len, self._pending.values()))

    @property
    def is_overdue(self) -> bool:
        """Whether so much is pending that a snapshot is less: what came and went during an outage piles up."""
        return self.pending > _OVERDUE_FROM + sum(self._sizes.values())

    # What happens to the replica

    def apply(self, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        """``stored`` were not held before, ``removed`` were."""
        stored, removed = list(stored), list(removed)
        self._tell_of(tier)
        self._pending[tier].apply(stored, removed)
        self._sizes[tier] += len(stored) - len(removed)

    def clear(self, tier: Tier) -> None:
        """It holds nothing in ``tier``, which says nothing about a tier that was never told of."""
        if tier in self._sizes:
            self._pending[tier].clear()
            self._sizes[tier] = 1

    def _tell_of(self, tier: Tier) -> None:
        if tier not in self._sizes:
            self._pending[tier] = PendingChanges()
            self._pending[tier].clear()  # writes the sentinel
            self._sizes[tier] = 1
            self.details_due = True

    def lost(self, now: float) -> float:
        """Redis lost something of it. Returns how long to wait before it is written anew: longer each time.

        A server that evicts keys for want of memory would be filled again and again.
        """
        again = now - self._lost_s < _FORGIVEN_S
        self._pause_s = min(_LONGEST_PAUSE_S, max(1.0, 2 * self._pause_s)) if again else 0.0
        self._lost_s = now
        self.reopens_s = now + self._pause_s
        return self._pause_s

    # An epoch of its own

    def snapshot(self, keys: Keys, epoch: int, owned: Owned) -> Iterator[list[Command]]:
        """Commands that write all of ``owned``, as it is now, a pipeline at a time. What happens later is pending."""
        tiers = {Tier.L0, *owned}
        blocks = {tier: members(owned.get(tier, ())) for tier in sorted(tiers)}
        self._pending = {tier: PendingChanges() for tier in blocks}
        self._sizes = {tier: len(held) + 1 for tier, held in blocks.items()}
        return self._snapshot(keys, epoch, blocks)

    def _snapshot(self, keys: Keys, epoch: int, blocks: Mapping[Tier, list[bytes]]) -> Iterator[list[Command]]:
        for tier, held in blocks.items():
            name = keys.blocks(self.key, epoch, tier)
            yield [("SADD", name, _SENTINEL), ("EXPIRE", name, ENTRY_S)]
            commands: list[Command] = [("SADD", name, *piece) for piece in pieces(held)]
            step = _COMMANDS_PER_PIPELINE - 1  # and one that keeps the set while the rest is on its way
            for at in range(0, len(commands), step):
                yield [*commands[at : at + step], ("EXPIRE", name, ENTRY_S)]

    def old_sets(self, keys: Keys, epoch: int) -> list[str]:
        """The sets of an epoch that is over."""
        return [keys.blocks(self.key, epoch, tier) for tier in Tier]

    # What is pending

    def write(self, keys: Keys, others_storage: Sequence[str]) -> list[Written]:
        """All that is pending, as commands. ``others_storage``: the L2 sets of the namespace.

        What one replica removes from storage is gone for all.
        """
        written = []
        for tier, pending in self._pending.items():
            if pending:
                batch, name = pending.take(), keys.blocks(self.key, self.epoch, tier)
                others = [other for other in others_storage if other != name] if tier is Tier.L2 else []
                written.append(Written(tier, batch, _commands(name, batch, others), self._size(tier)))
        return written

    def put_back(self, written: Iterable[Written]) -> None:
        """These were not, or not surely, carried out: they are pending again."""
        for tier, batch, *_ in written:
            self._pending[tier].put_back(batch)

    def sizes(self) -> list[int | None]:
        """How many members the set of each of :attr:`tiers` has now; ``None``: cannot be told."""
        return [None if self._pending[tier] else self._size(tier) for tier in self.tiers]

    def _size(self, tier: Tier) -> int | None:
        return None if tier is Tier.L2 else self._sizes[tier]  # from storage other replicas remove, too


def is_intact(expected: int | None, size: int) -> bool:
    """Whether a set has the members it must have. One that is gone never has."""
    return size > 0 if expected is None else size == expected


def pieces(blocks: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """As many as one command may have."""
    for at in range(0, len(blocks), _MEMBERS_PER_COMMAND):
        yield blocks[at : at + _MEMBERS_PER_COMMAND]


def portions(commands: Iterable[Command]) -> Iterator[list[Command]]:
    """As many as one pipeline may have."""
    portion: list[Command] = []
    words = 0
    for command in commands:
        if portion and words + len(command) > _WORDS_PER_PIPELINE:
            yield portion
            portion, words = [], 0
        portion.append(command)
        words += len(command)
    if portion:
        yield portion


def _commands(name: str, batch: Batch, others: Sequence[str]) -> list[Command]:
    commands: list[Command] = []
    if batch.cleared:
        commands += [("UNLINK", name), ("SADD", name, _SENTINEL)]
        commands += [("EXPIRE", name, SETS_S)]  # in case that this process ends in the middle
    commands += [("SADD", name, *piece) for piece in pieces(members(batch.stored))]
    for set_ in (name, *others):
        commands += [("SREM", set_, *piece) for piece in pieces(members(batch.removed))]
    return [*commands, ("EXPIRE", name, SETS_S), ("SCARD", name)]
