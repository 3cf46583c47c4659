"""Claims: which replicas' entries this process writes, which it wants to, and which it is about to leave.

Pure: knows no Redis, only what was asked of it and what Redis was found to say. For each replica that is followed here
there is either an epoch in force, one being opened, a claim on one that is not had yet, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.epoch_opening import EpochOpening
from gateway.shared.index.writer_stats import WriterStats
from gateway.shared.index.written_replica import WrittenReplica
from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisRefused

Identity = tuple[str, str]
#: Redis's word where something else lies in a set's place: it is lost.
_NO_SET = "WRONGTYPE"


class Leaving(NamedTuple):
    """An epoch that is to be given up. ``forget``: the replica has left, and so do its entries."""

    replica: WrittenReplica
    forget: bool


class Claims:
    """``wake`` is called when there is something to do in Redis. ``evictions`` is told of losses that repeat."""

    def __init__(self, keys: Keys, stats: WriterStats, evictions: FaultLog, wake: Callable[[], None]) -> None:
        self.leaving: list[Leaving] = []
        self.stale_sets: list[str] = []  # names of sets that nobody is to read
        self.refusal: RedisRefused | None = None  # the first one since this was last reset
        self._keys = keys
        self._stats = stats
        self._evictions = evictions
        self._wake = wake
        self._replicas: dict[Identity, WrittenReplica] = {}
        self._wanted: dict[Identity, str] = {}  # why
        self._openings: dict[Identity, EpochOpening] = {}

    def __repr__(self) -> str:
        return f"<Claims: {len(self.written)} written, {len(self._openings)} opened, {len(self._wanted)} wanted>"

    @property
    def written(self) -> list[WrittenReplica]:
        """Those with an epoch in force that is this process's."""
        return [replica for replica in self._replicas.values() if replica.epoch]

    @property
    def openings(self) -> list[tuple[WrittenReplica, EpochOpening]]:
        """Those whose epoch is on its way, the one first whose turn is next."""
        return [(self._replicas[identity], opening) for identity, opening in self._openings.items()]

    @property
    def is_opening(self) -> bool:
        """Whether any epoch is on its way."""
        return bool(self._openings)

    @property
    def are_settled(self) -> bool:
        """Whether no epoch is to be opened, and none to be given up."""
        return not (self._wanted or self._openings or self.leaving)

    def writes(self, key: ReplicaKey) -> bool:
        """Whether an epoch of this replica is in force that is this process's."""
        replica = self._replicas.get(_identity(key))
        return replica is not None and replica.epoch > 0

    def is_open(self, replica: WrittenReplica) -> bool:
        """Whether there is an epoch in force that no other one is to replace."""
        identity = _identity(replica.key)
        return replica.epoch > 0 and identity not in self._wanted and identity not in self._openings

    def find_written(self, key: ReplicaKey) -> WrittenReplica | None:
        """The one with an epoch in force, whatever its incarnation."""
        replica = self._replicas.get(_identity(key))
        return replica if replica is not None and replica.epoch else None

    def taking(self, key: ReplicaKey) -> WrittenReplica | None:
        """The replica, if its changes are wanted: an epoch is open, or a snapshot taken that they come on top of."""
        identity = _identity(key)
        replica = self._replicas.get(identity)
        if replica is None or replica.key != key:
            return None
        opening = self._openings.get(identity)
        is_taken = self.is_open(replica) if opening is None else opening.has_begun
        return replica if is_taken else None

    # What is asked of this process

    def claim(self, key: ReplicaKey) -> None:
        """Become the writer of a replica, if nobody else is."""
        identity = _identity(key)
        if identity in self._replicas and not self.writes(key) and identity not in self._openings:
            self._wanted.setdefault(identity, "takeover")
            self._wake()

    def release(self, key: ReplicaKey) -> None:
        """Leave a replica to somebody else. Its entries stay."""
        self._abandon(_identity(key), forget=False)

    def release_all(self) -> None:
        """Leave all of them to others."""
        for identity in self._replicas:
            self._abandon(identity, forget=False)

    def begin(self, key: ReplicaKey) -> None:
        """A replica is followed from now on, or its engine has restarted."""
        identity = _identity(key)
        replica = self._replicas.setdefault(identity, WrittenReplica(key))
        replica.key = key
        replica.reopens_s = float("-inf")  # whatever was lost was another engine's
        if replica.epoch or identity in self._openings:
            self._void(replica)  # which a server that is out of memory does, too
            self.outdate(replica, "engine")

    def drop(self, key: ReplicaKey) -> None:
        """It left. Of an incarnation that was replaced already: nothing."""
        identity = _identity(key)
        replica = self._replicas.get(identity)
        if replica is not None and replica.key == key:
            self._abandon(identity, forget=True)
            del self._replicas[identity]

    def _abandon(self, identity: Identity, *, forget: bool) -> None:
        replica = self._replicas.get(identity)
        self._wanted.pop(identity, None)
        opening = self._openings.pop(identity, None)
        if replica is not None and (replica.epoch or opening):
            gone = WrittenReplica(replica.key)
            gone.epoch = replica.epoch
            self.leaving.append(Leaving(gone, forget))
            replica.epoch = 0
            self._wake()

    # What is found out. Meanwhile the replica may have left, or been replaced: then it means nothing.

    def outdate(self, replica: WrittenReplica, why: str) -> bool:
        """A new epoch is due. The one in force is written no more. Whether there was one, or one on its way."""
        identity = _identity(replica.key)
        is_due = self._is_here(replica) and (replica.epoch > 0 or identity in self._openings)
        if is_due:
            self._openings.pop(identity, None)
            self._wanted[identity] = why
            self._wake()
        return is_due

    def entries_lost(self, replica: WrittenReplica, now: float) -> None:
        """Redis has not what was written. ``now``: the event loop's time, in seconds."""
        if self.outdate(replica, "lost") and replica.lost(now):
            self._evictions.failed("again and again: is it set to evict keys when its memory is full?")
            self._void(replica)  # it is written later: until then nobody is to believe what is left

    def refused(self, replica: WrittenReplica, answers: Sequence[RedisRefused], now: float) -> None:
        """Redis would not do something for it. ``now``: the event loop's time, in seconds."""
        self._stats.refused.update(answer.code for answer in answers)
        self.refusal = self.refusal or answers[0]
        if any(answer.code == _NO_SET for answer in answers):
            self.entries_lost(replica, now)

    def lock_lost(self, replica: WrittenReplica) -> None:
        """Another process writes now, or Redis forgot: whoever claims it next finds out."""
        if self._is_here(replica):
            identity = _identity(replica.key)
            self._stats.locks_lost += 1
            replica.epoch = 0
            self._openings.pop(identity, None)
            self._wanted[identity] = "lost"
            self._wake()

    def _is_here(self, replica: WrittenReplica) -> bool:
        return self._replicas.get(_identity(replica.key)) is replica

    def _void(self, replica: WrittenReplica) -> None:
        """What is in force is not to be read any more, however long the new epoch takes."""
        if replica.epoch:
            self.stale_sets += replica.old_sets(self._keys, replica.epoch)

    # The way to an epoch of one's own

    def due(self, now: float) -> list[tuple[WrittenReplica, str]]:
        """Those whose lock is to be had now, and why."""
        wanted = [(self._replicas[identity], why) for identity, why in self._wanted.items()]
        return [(replica, why) for replica, why in wanted if replica.reopens_s <= now]

    def answered(self, replica: WrittenReplica, why: str, epoch: int | None) -> None:
        """What became of one that was :meth:`due`. ``epoch`` ``None``: another process writes."""
        identity = _identity(replica.key)
        if self._wanted.get(identity) != why:
            return  # it left, or something else happened to it meanwhile
        del self._wanted[identity]
        if epoch is None:
            self._replicas[identity].epoch = 0
        else:
            self._openings[identity] = EpochOpening(epoch, why)

    def is_under_way(self, replica: WrittenReplica, opening: EpochOpening) -> bool:
        """Whether nothing came in between: it left, restarted, or its lock was lost."""
        return self._openings.get(_identity(replica.key)) is opening

    def line_up(self, replica: WrittenReplica, opening: EpochOpening) -> None:
        """The others come first now."""
        if self.is_under_way(replica, opening):
            identity = _identity(replica.key)
            self._openings[identity] = self._openings.pop(identity)

    def opened(self, replica: WrittenReplica, opening: EpochOpening) -> None:
        """It is in force."""
        del self._openings[_identity(replica.key)]
        replica.epoch, replica.details_due = opening.epoch, False
        self._stats.epochs[opening.why] += 1


def _identity(key: ReplicaKey) -> Identity:
    """A replica, whatever its incarnation."""
    return key.namespace, key.replica_id
