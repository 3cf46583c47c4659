"""RedisWriter: what this process's followers tell, written into Redis for all to read.

One task does everything in turn, a pipeline at a time: it keeps the locks it holds and opens new epochs (see
``epoch_keeper``), and writes what changed since the last time, many events as one command. So nothing here races with
itself.

Where Redis does not answer, what was to be written stays pending; where it lost something, a set's size shows it,
and the replica gets a new epoch from all that is known. Readers read the old one until the new one is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.claims import Claims
from gateway.shared.index.epoch_keeper import EpochKeeper, WritingLink
from gateway.shared.index.registry import Details
from gateway.shared.index.writer_lock import LOCK_S
from gateway.shared.index.writer_stats import WriterStats
from gateway.shared.index.written_replica import Owned, Written, WrittenReplica, is_intact, portions
from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError, RedisRefused, RedisUnavailable

_LOGGER = logging.getLogger(__name__)
#: Between two pipelines: what happens meanwhile is written together.
_FLUSH_S = 0.015
#: After Redis did not answer, or refused.
_RETRY_S = 0.25
#: Blocks after which what is pending of further replicas waits for the next round: a fifth of a second.
_BLOCKS_PER_ROUND = 30_000


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
        self._storage = storage
        self._wake = asyncio.Event()
        evictions = FaultLog(_LOGGER, "redis loses what is written", "redis keeps what is written", clock=monotonic)
        self._claims = Claims(keys, self.stats, evictions, self._wake.set)
        self._epochs = EpochKeeper(link, keys, process_id, self._claims, owned=owned, details=details, lock_s=lock_s)

    def __repr__(self) -> str:
        return f"<RedisWriter of {len(self.written)} replicas>"

    @property
    def written(self) -> list[ReplicaKey]:
        """The replicas whose entries in force are this process's."""
        return [replica.key for replica in self._claims.written]

    def writes(self, key: ReplicaKey) -> bool:
        """Whether it is one of :attr:`written`, in whatever incarnation."""
        return self._claims.writes(key)

    @property
    def is_busy(self) -> bool:
        """Whether anything is still to be written that can be."""
        changed = any(replica.changed or replica.details_due for replica in self._claims.written)
        return changed or not self._claims.are_settled

    def claim(self, key: ReplicaKey) -> None:
        """Become the writer of a replica, if nobody else is."""
        self._claims.claim(key)

    def release(self, key: ReplicaKey) -> None:
        """Leave a replica to somebody else. Its entries stay."""
        self._claims.release(key)

    def take_wanted(self) -> set[ReplicaKey]:
        """The written replicas of which another process wants to know all, since the last call."""
        return self._epochs.take_wanted()

    def details_changed(self, key: ReplicaKey) -> None:
        """What is to be told of a replica's feed is another now."""
        replica = self._claims.find_written(key)
        if replica is not None:
            replica.details_due = True
            self._wake.set()

    def renew_now(self) -> None:
        """Look after the locks, and at what there is, with the next round."""
        self._epochs.renew_at_s = 0.0
        self._wake.set()

    # IndexWriter

    def apply(self, key: ReplicaKey, tier: Tier, stored: Iterable[int], removed: Iterable[int]) -> None:
        replica = self._claims.taking(key)
        if replica is not None:
            replica.apply(tier, stored, removed)
            if replica.is_overdue:
                self._claims.outdate(replica, "backlog")
            self._wake.set()

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        replica = self._claims.taking(key)
        if replica is not None:
            replica.clear(tier)
            self._wake.set()

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Iterable[int]]) -> None:
        """What it holds is asked of ``owned`` when its epoch is opened."""
        self._claims.begin(key)

    def drop(self, key: ReplicaKey) -> None:
        """Of an incarnation that was replaced already: nothing."""
        self._claims.drop(key)

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
            async with asyncio.timeout(max(0.0, self._epochs.renew_at_s - now)):
                await self._wake.wait()
        except TimeoutError:
            return
        if not self._claims.is_opening:
            await asyncio.sleep(_FLUSH_S)

    async def round(self) -> None:
        """Everything that is due, once. Raises ``RedisError``: what was not done stays due.

        What is refused for one replica keeps no other one waiting.
        """
        self._wake.clear()
        self._claims.refusal = None
        await self._epochs.renew_if_due()
        await self._epochs.leave()
        await self._epochs.acquire()
        if await self._epochs.push():
            self._wake.set()
        await self._epochs.tell()
        await self._flush()
        if self._claims.refusal is not None:
            raise self._claims.refusal

    async def finish(self) -> None:
        """Give all locks back: a planned stop. Raises ``RedisError``."""
        self._claims.release_all()
        await self._epochs.leave()

    async def _flush(self) -> None:
        """Write what is pending, of as many replicas as one round may take."""
        written: list[tuple[WrittenReplica, Written]] = []
        blocks = 0
        for replica in self._claims.written:
            if replica.changed and self._claims.is_open(replica):
                if blocks > _BLOCKS_PER_ROUND:
                    self._wake.set()
                    break
                blocks += replica.pending
                storage = self._storage(replica.key.namespace)
                written += [(replica, each) for each in replica.write(self._keys, storage)]
        commands = [command for _, each in written for command in each.commands]
        try:
            answers = iter([answer for some in portions(commands) for answer in await self._link.run_all(some)])
        except RedisUnavailable:
            for replica, each in written:
                replica.put_back([each])
            raise
        for replica, each in written:
            self._read([next(answers) for _ in each.commands], replica, each)

    def _read(self, answers: list[Any], replica: WrittenReplica, written: Written) -> None:
        """Note that a batch was written, or that Redis refused it."""
        now = asyncio.get_running_loop().time()
        refused = next((answer for answer in answers if isinstance(answer, RedisRefused)), None)
        if refused is not None:
            replica.put_back([written])
            self._claims.refused(replica, [refused], now)
            return
        self.stats.blocks_written += len(written.batch.stored) + len(written.batch.removed)
        if not is_intact(written.size, answers[-1]):
            self._claims.entries_lost(replica, now)
