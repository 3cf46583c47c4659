"""RedisWriter: what this process's followers tell, written into Redis for all to read.

One task does everything in turn, a pipeline at a time: it renews the locks it holds, pushes snapshots that open new
epochs, and writes what changed since the last time, many events as one command. So nothing here races with itself,
and a large snapshot does not keep the locks of others from being renewed.

Where Redis does not answer, what was to be written stays pending; where it lost something, a set's size shows it,
and the replica gets a new epoch from all that is known. Readers read the old one until the new one is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.epoch_opening import EpochOpening
from gateway.shared.index.registry import Details
from gateway.shared.index.writer_lock import LOCK_S, WriterLock, renewal
from gateway.shared.index.writer_stats import WriterStats
from gateway.shared.index.written_replica import Owned, Written, WrittenReplica, is_intact, portions
from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError, RedisRefused, RedisUnavailable
from gateway.shared.link.script import Command

_LOGGER = logging.getLogger(__name__)
#: Between two pipelines: what happens meanwhile is written together.
_FLUSH_S = 0.015
#: After Redis did not answer, or refused.
_RETRY_S = 0.25
#: Redis's word where something else lies in a set's place: it is lost.
_NO_SET = "WRONGTYPE"
#: Blocks after which what is pending of further replicas waits for the next round: a fifth of a second.
_BLOCKS_PER_ROUND = 30_000
#: Pipelines of one snapshot between two looks at everything else.
_SNAPSHOT_PIECES = 4


class WritingLink(Protocol):
    """What the writer needs of the link."""

    async def run(self, command: Command) -> Any: ...

    async def run_all(self, commands: Sequence[Command]) -> list[Any]: ...


class RedisWriter:
    """An :class:`~gateway.kv.index.IndexWriter`. Writes only the replicas whose lock it holds; see :meth:`claim`.

    ``owned`` and ``details`` are asked for what a follower knows of a replica; ``storage`` for the L2 sets of a
    namespace.
    """

    def __init__(
        self,
        link: WritingLink,
        keys: Keys,
        process_id: str,
        *,
        owned: Callable[[ReplicaKey], Owned],
        details: Callable[[ReplicaKey, tuple[Tier, ...]], Details],
        storage: Callable[[str], Sequence[str]],
        lock_s: float = LOCK_S,
    ) -> None:
        self.stats = WriterStats()
        self._link = link
        self._keys = keys
        self._process_id = process_id
        self._owned = owned
        self._details = details
        self._storage = storage
        self._lock_s = lock_s
        self._replicas: dict[tuple[str, str], WrittenReplica] = {}
        self._claims: dict[tuple[str, str], str] = {}  # why
        self._openings: dict[tuple[str, str], EpochOpening] = {}
        self._leaving: list[tuple[WrittenReplica, bool]] = []
        self._stale_sets: list[str] = []
        self._evicted = FaultLog(_LOGGER, "redis loses what is written", "redis keeps what is written", clock=monotonic)
        self._wanted: set[ReplicaKey] = set()
        self._wake = asyncio.Event()
        self._renew_at = 0.0
        self._refusal: RedisRefused | None = None  # the first one of a round

    def __repr__(self) -> str:
        return f"<RedisWriter of {len(self.written)} replicas>"

    @property
    def written(self) -> list[ReplicaKey]:
        """The replicas whose entries in force are this process's."""
        return [replica.key for replica in self._replicas.values() if replica.epoch]

    def writes(self, key: ReplicaKey) -> bool:
        replica = self._replicas.get(_identity(key))
        return replica is not None and replica.epoch > 0

    @property
    def is_busy(self) -> bool:
        """Whether anything is still to be written that can be."""
        open_ones = (replica for replica in self._replicas.values() if replica.epoch)
        changed = any(replica.changed or replica.details_due for replica in open_ones)
        return bool(self._claims or self._openings or self._leaving or changed)

    def claim(self, key: ReplicaKey) -> None:
        """Become the writer of a replica, if nobody else is."""
        identity = _identity(key)
        if identity in self._replicas and not self.writes(key) and identity not in self._openings:
            self._claims.setdefault(identity, "takeover")
            self._wake.set()

    def release(self, key: ReplicaKey) -> None:
        """Leave a replica to somebody else. Its entries stay."""
        self._abandon(_identity(key), forget=False)

    def take_wanted(self) -> set[ReplicaKey]:
        """The written replicas of which another process wants to know all, since the last call."""
        wanted, self._wanted = self._wanted, set()
        return wanted

    def details_changed(self, key: ReplicaKey) -> None:
        """What is to be told of a replica's feed is another now."""
        replica = self._replicas.get(_identity(key))
        if replica is not None and replica.epoch:
            replica.details_due = True
            self._wake.set()

    def renew_now(self) -> None:
        """Look after the locks, and at what there is, with the next round."""
        self._renew_at = 0.0
        self._wake.set()

    # IndexWriter

    def apply(self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        replica = self._taking(key)
        if replica is not None:
            replica.apply(tier, stored, removed)
            if replica.is_overdue:
                self._outdate(_identity(key), "backlog")
            self._wake.set()

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        replica = self._taking(key)
        if replica is not None:
            replica.clear(tier)
            self._wake.set()

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Iterable[int]]) -> None:
        """What it holds is asked of ``owned`` when its epoch is opened."""
        identity = _identity(key)
        replica = self._replicas.setdefault(identity, WrittenReplica(key))
        replica.key = key
        replica.reopens_s = float("-inf")  # whatever was lost was another engine's
        if replica.epoch or identity in self._openings:
            self._void(replica)  # which a server that is out of memory does, too
            self._outdate(identity, "engine")

    def drop(self, key: ReplicaKey) -> None:
        """Of an incarnation that was replaced already: nothing."""
        identity = _identity(key)
        replica = self._replicas.get(identity)
        if replica is not None and replica.key == key:
            self._abandon(identity, forget=True)
            del self._replicas[identity]

    def _taking(self, key: ReplicaKey) -> WrittenReplica | None:
        """The replica, if its changes are wanted: an epoch is open, or a snapshot taken that they come on top of."""
        identity = _identity(key)
        replica = self._replicas.get(identity)
        if replica is None or replica.key != key:
            return None
        opening = self._openings.get(identity)
        is_taken = self._is_open(replica) if opening is None else opening.has_begun
        return replica if is_taken else None

    def _outdate(self, identity: tuple[str, str], why: str) -> None:
        """A new epoch is due. The one in force is written no more."""
        replica = self._replicas[identity]
        if replica.epoch or identity in self._openings:
            self._openings.pop(identity, None)
            self._claims[identity] = why
            self._wake.set()
            if why == "lost" and replica.lost(asyncio.get_running_loop().time()):
                self._withdraw(replica)

    def _withdraw(self, replica: WrittenReplica) -> None:
        """It is lost again and again, and written later: until then nobody is to believe what is left."""
        self._evicted.failed("again and again: is it set to evict keys when its memory is full?")
        self._void(replica)

    def _void(self, replica: WrittenReplica) -> None:
        """What is in force is not to be read any more, however long the new epoch takes."""
        if replica.epoch:
            self._stale_sets += replica.old_sets(self._keys, replica.epoch)

    def _abandon(self, identity: tuple[str, str], *, forget: bool) -> None:
        replica = self._replicas.get(identity)
        self._claims.pop(identity, None)
        opening = self._openings.pop(identity, None)
        if replica is not None and (replica.epoch or opening):
            gone = WrittenReplica(replica.key)
            gone.epoch = replica.epoch
            self._leaving.append((gone, forget))
            replica.epoch = 0
            self._wake.set()

    # The task

    async def run(self) -> None:
        """Write until cancelled."""
        faults = FaultLog(
            _LOGGER,
            "the index cannot be written",
            "the index is written again",
            clock=asyncio.get_running_loop().time,
        )
        while True:
            await self._rest()
            try:
                await self.round()
            except RedisError as error:
                faults.failed(error)
                await asyncio.sleep(_RETRY_S)
                self._wake.set()
            else:
                faults.works()

    async def _rest(self) -> None:
        """Until something is to be done, and long enough for more to come together."""
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, self._renew_at - now)):
                await self._wake.wait()
        except TimeoutError:
            return
        if not self._openings:
            await asyncio.sleep(_FLUSH_S)

    async def round(self) -> None:
        """Everything that is due, once. Raises ``RedisError``: what was not done stays due.

        What is refused for one replica keeps no other one waiting.
        """
        self._wake.clear()
        self._refusal = None
        now = asyncio.get_running_loop().time()
        if now >= self._renew_at:
            await self._renew()
            self._renew_at = now + self._lock_s / 4
        await self._leave()
        await self._acquire()
        await self._push()
        await self._tell()
        await self._flush()
        if self._refusal is not None:
            raise self._refusal

    async def finish(self) -> None:
        """Give all locks back: a planned stop. Raises ``RedisError``."""
        for identity in list(self._replicas):
            self._abandon(identity, forget=False)
        await self._leave()

    async def _renew(self) -> None:
        await self._keep_openings()
        replicas = [replica for replica in self._replicas.values() if replica.epoch]
        expected = [replica.sizes() for replica in replicas]
        epochs = [replica.epoch for replica in replicas]
        calls = [self._lock(replica).renew(replica.epoch, replica.tiers) for replica in replicas]
        for replica, epoch, sizes, answer in zip(replicas, epochs, expected, await self._run_all(calls)):
            if replica.epoch != epoch:
                continue
            if isinstance(answer, RedisRefused):
                self._refused(replica, answer)
                continue
            held, wanted, members = renewal(answer)
            if not held:
                self._lost(replica)
            elif self._is_open(replica) and not all(map(is_intact, sizes, members)):
                self._outdate(_identity(replica.key), "lost")
            if wanted:
                self._wanted.add(replica.key)

    async def _keep_openings(self) -> None:
        """Those that wait for their turn keep their locks."""
        openings = [(self._replicas[identity], opening) for identity, opening in self._openings.items()]
        answers = await self._run_all([self._lock(replica).keep() for replica, _ in openings])
        for (replica, opening), answer in zip(openings, answers):
            if isinstance(answer, RedisRefused):
                self._refused(replica, answer)
            elif self._openings.get(_identity(replica.key)) is opening and not renewal(answer).held:
                self._lost(replica)

    def _lost(self, replica: WrittenReplica) -> None:
        """Another process writes now, or Redis forgot: whoever claims it next finds out."""
        if self._replicas.get(_identity(replica.key)) is not replica:
            return  # it left meanwhile
        self.stats.locks_lost += 1
        replica.epoch = 0
        self._openings.pop(_identity(replica.key), None)
        self._claims[_identity(replica.key)] = "lost"
        self._wake.set()

    async def _leave(self) -> None:
        while self._leaving:
            replica, forget = self._leaving[0]
            commands: list[Command] = [self._lock(replica).release(replica.epoch, forget=forget)]
            if forget and replica.epoch:
                commands.append(("UNLINK", *replica.old_sets(self._keys, replica.epoch)))
            await self._run_all(commands)
            self._leaving.pop(0)
        stale = list(self._stale_sets)
        await self._run_all([("UNLINK", name) for name in stale])
        del self._stale_sets[: len(stale)]

    async def _acquire(self) -> None:
        """Take what is claimed, and get new epochs."""
        now = asyncio.get_running_loop().time()
        claims = [(identity, why) for identity, why in self._claims.items() if self._may_open(identity, now)]
        answers = await self._run_all([self._lock(self._replicas[identity]).acquire() for identity, _ in claims])
        for (identity, why), answer in zip(claims, answers):
            if isinstance(answer, RedisRefused):
                self._refused(self._replicas.get(identity), answer)
                continue
            if self._claims.get(identity) != why:
                continue
            del self._claims[identity]
            if answer is None:
                self._replicas[identity].epoch = 0  # another process writes
                continue
            self._openings[identity] = EpochOpening(int(answer), why)

    async def _push(self) -> None:
        """Some pieces of each snapshot on its way, until locks are to be renewed. Who was not through waits in line."""
        for identity, opening in list(self._openings.items()):
            await self._push_pieces(identity, opening)
            if self._openings.get(identity) is opening:
                self._openings[identity] = self._openings.pop(identity)
            self._wake.set()
            if asyncio.get_running_loop().time() >= self._renew_at:
                return

    async def _push_pieces(self, identity: tuple[str, str], opening: EpochOpening) -> None:
        """Register it when it is through."""
        for _ in range(_SNAPSHOT_PIECES):
            if self._openings.get(identity) is not opening:
                return  # it left, or restarted, while another one was pushed
            piece = opening.next_piece(partial(self._snapshot, self._replicas[identity], opening.epoch))
            if not piece:
                await self._register(identity, opening)
                return
            if not await self._send(identity, opening, piece):
                return

    def _snapshot(self, replica: WrittenReplica, epoch: int) -> Iterator[list[Command]]:
        return replica.snapshot(self._keys, epoch, self._owned(replica.key))

    async def _send(self, identity: tuple[str, str], opening: EpochOpening, piece: list[Command]) -> bool:
        """One piece, and the lock kept meanwhile. Whether it is still ours."""
        replica = self._replicas[identity]
        kept, *answers = await self._run_all([self._lock(replica).keep(), *piece])
        if refused := [answer for answer in (kept, *answers) if isinstance(answer, RedisRefused)]:
            self._refused(replica, *refused)
            return False  # and the piece is sent again
        opening.sent()
        if not renewal(kept).held:
            self._lost(replica)
            return False
        return self._openings.get(identity) is opening

    async def _register(self, identity: tuple[str, str], opening: EpochOpening) -> None:
        replica = self._replicas[identity]
        details = self._details(replica.key, replica.tiers)
        (before,) = await self._run_all([self._lock(replica).register(opening.epoch, details)])
        if self._openings.get(identity) is not opening:
            return  # something newer came in between
        if isinstance(before, RedisRefused):
            self._refused(replica, before)
            return
        del self._openings[identity]
        if before is None:
            self._lost(replica)
            return
        replica.epoch, replica.details_due = opening.epoch, False
        self.stats.epochs[opening.why] += 1
        old = int(before)
        if old not in (0, opening.epoch):  # the same: it was told already, and the answer lost
            await self._run_all([("UNLINK", *replica.old_sets(self._keys, old))])

    async def _tell(self) -> None:
        """Tell readers what changed of the feeds."""
        due = [replica for replica in self._replicas.values() if replica.details_due and self._is_open(replica)]
        calls = [
            self._lock(replica).register(replica.epoch, self._details(replica.key, replica.tiers)) for replica in due
        ]
        for replica in due:
            replica.details_due = False
        try:
            answers = await self._run_all(calls)
        except RedisUnavailable:
            for replica in due:
                replica.details_due = True
            raise
        for replica, answer in zip(due, answers):
            if isinstance(answer, RedisRefused):
                replica.details_due = True
                self._refused(replica, answer)
            elif answer is None:
                self._lost(replica)

    async def _flush(self) -> None:
        written: list[tuple[WrittenReplica, Written]] = []
        blocks = 0
        for replica in self._replicas.values():
            if replica.changed and self._is_open(replica):
                if blocks > _BLOCKS_PER_ROUND:
                    self._wake.set()
                    break
                blocks += replica.pending
                storage = self._storage(replica.key.namespace)
                written += [(replica, each) for each in replica.write(self._keys, storage)]
        commands = [command for _, each in written for command in each.commands]
        try:
            answers = iter([answer for some in portions(commands) for answer in await self._run_all(some)])
        except RedisUnavailable:
            for replica, each in written:
                replica.put_back([each])
            raise
        for replica, each in written:
            self._read([next(answers) for _ in each.commands], replica, each)

    def _read(self, answers: list[Any], replica: WrittenReplica, written: Written) -> None:
        """Note that a batch was written, or that Redis refused it."""
        refused = next((answer for answer in answers if isinstance(answer, RedisRefused)), None)
        if refused is not None:
            replica.put_back([written])
            self._refused(replica, refused)
            return
        self.stats.blocks_written += len(written.batch.stored) + len(written.batch.removed)
        if not is_intact(written.size, answers[-1]):
            self._outdate(_identity(replica.key), "lost")

    def _may_open(self, identity: tuple[str, str], now: float) -> bool:
        replica = self._replicas.get(identity)
        return replica is not None and replica.reopens_s <= now

    def _is_open(self, replica: WrittenReplica) -> bool:
        """Whether there is an epoch in force that no other one is to replace."""
        identity = _identity(replica.key)
        return replica.epoch > 0 and identity not in self._claims and identity not in self._openings

    def _lock(self, replica: WrittenReplica) -> WriterLock:
        return WriterLock(self._keys, replica.key, self._process_id, self._lock_s)

    async def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        return await self._link.run_all(commands) if commands else []

    def _refused(self, replica: WrittenReplica | None, *refused: RedisRefused) -> None:
        """Count it, and raise the first one at the end of the round."""
        self.stats.refused.update(answer.code for answer in refused)
        self._refusal = self._refusal or refused[0]
        if replica is not None and any(answer.code == _NO_SET for answer in refused):
            self._outdate(_identity(replica.key), "lost")


def _identity(key: ReplicaKey) -> tuple[str, str]:
    """A replica, whatever its incarnation."""
    return key.namespace, key.replica_id
