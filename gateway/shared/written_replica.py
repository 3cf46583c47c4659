"""WrittenReplica: one replica's entries in Redis, as the process sees them that may write them.

Pure: makes commands and reads their answers. The sets of an epoch hold what the replica holds, and one member
more, the sentinel, since a set that loses its last member is no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.block_bytes import members
from gateway.shared.keys import Keys
from gateway.shared.pending_changes import Batch, PendingChanges
from gateway.shared.script import Command
from gateway.shared.writer_lock import ENTRY_S

_SENTINEL = b"@"
#: Members in one command: Redis serves nobody else meanwhile.
_MEMBERS_PER_COMMAND = 2_000
#: Commands of a snapshot in one pipeline.
_COMMANDS_PER_PIPELINE = 8

Owned = Mapping[Tier, Collection[int]]


class Written(NamedTuple):
    """What was pending for one set, as commands. The last one answers how many members the set has then."""

    tier: Tier
    batch: Batch
    commands: list[Command]
    size: int | None  # what it must answer; ``None``: cannot be told


class WrittenReplica:
    """``epoch`` 0: this process does not write it. ``due``: why a new epoch must be opened, or nothing."""

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.epoch = 0
        self.due = ""
        self.details_due = False
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
            for at in range(0, len(commands), _COMMANDS_PER_PIPELINE):
                yield commands[at : at + _COMMANDS_PER_PIPELINE]

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


def _commands(name: str, batch: Batch, others: Sequence[str]) -> list[Command]:
    commands: list[Command] = []
    if batch.cleared:
        commands += [("UNLINK", name), ("SADD", name, _SENTINEL)]
        commands += [("EXPIRE", name, ENTRY_S)]  # in case that this process ends in the middle
    commands += [("SADD", name, *piece) for piece in pieces(members(batch.stored))]
    for set_ in (name, *others):
        commands += [("SREM", set_, *piece) for piece in pieces(members(batch.removed))]
    return [*commands, ("EXPIRE", name, ENTRY_S), ("SCARD", name)]
