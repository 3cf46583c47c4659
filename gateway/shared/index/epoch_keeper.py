"""EpochKeeper: what claims need of Redis: locks taken, kept and given back, epochs filled, registered and told of.

An epoch is filled from a snapshot, in pieces, with looks at everything else in between, so that a large one does not
keep the locks of others from being renewed. Readers read the old one until the new one is registered.

Everything raises ``RedisError`` where Redis does not answer: what was not done stays due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.claims import Claims
from gateway.shared.index.epoch_opening import EpochOpening
from gateway.shared.index.registry import Details
from gateway.shared.index.writer_lock import LOCK_S, WriterLock, renewal
from gateway.shared.index.written_replica import Owned, WrittenReplica, is_intact
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.script import Command

#: Pipelines of one snapshot between two looks at everything else.
_SNAPSHOT_PIECES = 4


class WritingLink(Protocol):
    """What is needed of the link."""

    async def run_all(self, commands: Sequence[Command]) -> list[Any]: ...


class EpochKeeper:
    """``owned`` and ``details`` are asked for what a follower knows of a replica.

    One task awaits all of it, in turn. ``lock_s``: life of a lock.
    """

    def __init__(
        self,
        link: WritingLink,
        keys: Keys,
        process_id: str,
        claims: Claims,
        *,
        owned: Callable[[ReplicaKey], Owned],
        details: Callable[[ReplicaKey, tuple[Tier, ...]], Details],
        lock_s: float = LOCK_S,
    ) -> None:
        self.renew_at_s = 0.0  # of the event loop's time
        self._link = link
        self._keys = keys
        self._process_id = process_id
        self._claims = claims
        self._owned = owned
        self._details = details
        self._lock_s = lock_s
        self._wanted: set[ReplicaKey] = set()

    def __repr__(self) -> str:
        return f"<EpochKeeper of {self._claims!r}>"

    def take_wanted(self) -> set[ReplicaKey]:
        """The written replicas of which another process wants to know all, since the last call."""
        wanted, self._wanted = self._wanted, set()
        return wanted

    # Locks

    async def renew_if_due(self) -> None:
        """Keep all locks, a quarter of their life after the last time, and see whether what was written is there."""
        now = _now()
        if now >= self.renew_at_s:
            await self._keep_openings()
            await self._renew()
            self.renew_at_s = now + self._lock_s / 4

    async def _renew(self) -> None:
        replicas = self._claims.written
        expected = [replica.sizes() for replica in replicas]
        epochs = [replica.epoch for replica in replicas]
        calls = [self._lock(replica).renew(replica.epoch, replica.tiers) for replica in replicas]
        for replica, epoch, sizes, answer in zip(replicas, epochs, expected, await self._run_all(calls)):
            if replica.epoch == epoch:
                self._read_renewal(replica, sizes, answer)

    def _read_renewal(self, replica: WrittenReplica, sizes: Sequence[int | None], answer: Any) -> None:
        if isinstance(answer, RedisRefused):
            self._claims.refused(replica, [answer], _now())
            return
        held, wanted, members = renewal(answer)
        if not held:
            self._claims.lock_lost(replica)
        elif self._claims.is_open(replica) and not all(map(is_intact, sizes, members)):
            self._claims.entries_lost(replica, _now())
        if wanted:
            self._wanted.add(replica.key)

    async def _keep_openings(self) -> None:
        """Those that wait for their turn keep their locks."""
        openings = self._claims.openings
        answers = await self._run_all([self._lock(replica).keep() for replica, _ in openings])
        for (replica, opening), answer in zip(openings, answers):
            if isinstance(answer, RedisRefused):
                self._claims.refused(replica, [answer], _now())
            elif self._claims.is_under_way(replica, opening) and not renewal(answer).held:
                self._claims.lock_lost(replica)

    async def leave(self) -> None:
        """Give back what is to be left, and let go of sets that nobody is to read."""
        while self._claims.leaving:
            replica, forget = self._claims.leaving[0]
            commands: list[Command] = [self._lock(replica).release(replica.epoch, forget=forget)]
            if forget and replica.epoch:
                commands.append(("UNLINK", *replica.old_sets(self._keys, replica.epoch)))
            await self._run_all(commands)
            self._claims.leaving.pop(0)
        stale = list(self._claims.stale_sets)
        await self._run_all([("UNLINK", name) for name in stale])
        del self._claims.stale_sets[: len(stale)]

    async def acquire(self) -> None:
        """Take what is claimed, and get new epochs."""
        due = self._claims.due(_now())
        answers = await self._run_all([self._lock(replica).acquire() for replica, _ in due])
        for (replica, why), answer in zip(due, answers):
            if isinstance(answer, RedisRefused):
                self._claims.refused(replica, [answer], _now())
            else:
                self._claims.answered(replica, why, None if answer is None else int(answer))

    # New epochs

    async def push(self) -> bool:
        """Some pieces of each snapshot on its way, until locks are to be renewed. Who was not through waits in line.

        Returns whether there may be more to push.
        """
        openings = self._claims.openings
        for replica, opening in openings:
            await self._push_pieces(replica, opening)
            self._claims.line_up(replica, opening)
            if _now() >= self.renew_at_s:
                break
        return bool(openings)

    async def _push_pieces(self, replica: WrittenReplica, opening: EpochOpening) -> None:
        """Register it when it is through."""
        for _ in range(_SNAPSHOT_PIECES):
            if not self._claims.is_under_way(replica, opening):
                return  # it left, or restarted, while another one was pushed
            piece = opening.next_piece(partial(self._snapshot, replica, opening.epoch))
            if not piece:
                await self._register(replica, opening)
                return
            if not await self._send(replica, opening, piece):
                return

    def _snapshot(self, replica: WrittenReplica, epoch: int) -> Iterator[list[Command]]:
        return replica.snapshot(self._keys, epoch, self._owned(replica.key))

    async def _send(self, replica: WrittenReplica, opening: EpochOpening, piece: list[Command]) -> bool:
        """One piece, and the lock kept meanwhile. Whether it is still ours."""
        kept, *answers = await self._run_all([self._lock(replica).keep(), *piece])
        if refused := [answer for answer in (kept, *answers) if isinstance(answer, RedisRefused)]:
            self._claims.refused(replica, refused, _now())
            return False  # and the piece is sent again
        opening.sent()
        if not renewal(kept).held:
            self._claims.lock_lost(replica)
            return False
        return self._claims.is_under_way(replica, opening)

    async def _register(self, replica: WrittenReplica, opening: EpochOpening) -> None:
        (before,) = await self._run_all([self._telling(replica, opening.epoch)])
        if not self._claims.is_under_way(replica, opening):
            return  # something newer came in between
        if isinstance(before, RedisRefused):
            self._claims.refused(replica, [before], _now())
        elif before is None:
            self._claims.lock_lost(replica)
        else:
            self._claims.opened(replica, opening)
            if int(before) not in (0, opening.epoch):  # the same: it was told already, and the answer lost
                await self._run_all([("UNLINK", *replica.old_sets(self._keys, int(before)))])

    async def tell(self) -> None:
        """Tell readers what changed of the feeds."""
        due = [replica for replica in self._claims.written if replica.details_due and self._claims.is_open(replica)]
        calls = [self._telling(replica, replica.epoch) for replica in due]
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
                self._claims.refused(replica, [answer], _now())
            elif answer is None:
                self._claims.lock_lost(replica)

    def _telling(self, replica: WrittenReplica, epoch: int) -> Command:
        return self._lock(replica).register(epoch, self._details(replica.key, replica.tiers))

    def _lock(self, replica: WrittenReplica) -> WriterLock:
        return WriterLock(self._keys, replica.key, self._process_id, self._lock_s)

    async def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        return await self._link.run_all(commands) if commands else []


def _now() -> float:
    return asyncio.get_running_loop().time()
