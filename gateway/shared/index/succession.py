"""Succession: which processes follow a replica's events, which of them writes, and how a newcomer learns the rest.

Each replica is followed by two of the processes that can, the same two in everybody's view. One of them holds the
writer lock; the other knows all that it knows, so that when the writer dies the entries are written anew from that,
and readers see no difference. Whoever knows less than another gives the lock back.

A process whose knowledge is not complete, since it began to follow too late, asks the writer for its state, and
goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.event_following import EventFollowing
from gateway.kv.follower_state import FollowerState
from gateway.kv.trust import FeedState
from gateway.shared.index.handover import ASKED_FOR_S, LEFT_BEHIND_S, Handover
from gateway.shared.index.knowledge import COMPLETE, NOTHING, UNSURE, history, knowledge
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.processes.member_record import MemberRecord, replica_number
from gateway.shared.processes.members import Members

_LOGGER = logging.getLogger(__name__)
_ROUND_S = 0.4
#: Processes that follow a replica.
FOLLOWERS = 2
#: Bytes that a process leaves in Redis at its end, about.
_MOST_LEFT_BEHIND = 256 << 20
#: Rounds that another one must know more for, before the lock is given up.
_PATIENCE = 3
#: Rounds after the start in which a process that does not know all leaves the locks to others.
_GRACE = 6
#: Rounds after a state that could not be used, under another secret perhaps, in which no other one is asked for.
_DISAPPOINTED = 75
#: The same after one that was taken over: the replay may not reach back to it, and not to the next one either.
_TAKEN = 10


def known_replicas(following: EventFollowing) -> dict[ReplicaKey, int]:
    """Every replica that a process could follow, and how much it knows of it."""
    feeds = following.feeds
    return {key: knowledge(feeds.get(key)) for key in following.followable}


class Succession:
    """Run it, and :meth:`finish` when that has ended. ``round_s``: between two looks at all replicas."""

    def __init__(
        self,
        process_id: str,
        members: Members,
        following: EventFollowing,
        writer: RedisWriter,
        handover: Handover,
        *,
        round_s: float = _ROUND_S,
    ) -> None:
        self._process_id = process_id
        self._members = members
        self._following = following
        self._writer = writer
        self._handover = handover
        self._round_s = round_s
        self._rounds = 0
        self._considered: Mapping[str, MemberRecord] | None = None
        self._able: AbstractSet[int] = frozenset()  # what could be followed, when that was last considered
        self._best: AbstractSet[ReplicaKey] = frozenset()  # of which nobody knew more, when that was last looked at
        self._outdone: dict[ReplicaKey, int] = {}  # rounds for which another process has known more
        self._unverified: set[ReplicaKey] = set()  # what was taken over, and may be long past
        self._tried: dict[ReplicaKey, bytes] = {}  # the state that was last taken over
        self._ask_again: dict[ReplicaKey, int] = {}  # the round from which on, after a disappointment
        self._stale: dict[ReplicaKey, bytes | None] = {}  # the one that lay there before another was asked for

    def __repr__(self) -> str:
        return f"<Succession, writing {len(self._writer.written)} replicas>"

    def knows_best(self, key: ReplicaKey) -> bool:
        """Whether what this process knows of a replica is as good as any."""
        mine = knowledge(self._following.stats(key))
        return mine == COMPLETE or self._writer.writes(key) or (mine > UNSURE and key in self._best)

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            try:
                await self.round()
            except RedisError as error:
                _LOGGER.debug("no succession: %s", error)
            await asyncio.sleep(self._round_s)

    async def round(self) -> None:
        """Look at every replica once. Raises ``RedisError``."""
        self._rounds += 1
        known = known_replicas(self._following)
        rivals = {key: self._members.rivals(key) if self._members.known else NOTHING for key in known}
        self._best = {key for key, mine in known.items() if mine >= rivals[key]}
        self._unverified = set(filter(self._is_unverified, self._unverified))
        self._forget_all_but(known.keys())
        for key, mine in known.items():
            self._settle_writer(key, mine, rivals[key])
        self._choose_followed()
        await self._give()
        await self._learn()

    async def finish(self) -> None:
        """A planned stop: leave behind what nobody else knows, and all locks. Raises ``RedisError``.

        Locks are given back however much of the rest there is time and room for.
        """
        try:
            await self._leave_behind()
        finally:
            await self._writer.finish()

    async def _leave_behind(self) -> None:
        """Redis must have room for it: what is too much is lost."""
        left = 0
        for key, stats in self._following.feeds.items():
            mine = history(stats.since)  # its feed has ended by now
            if mine > max(UNSURE, self._members.rivals(key)):
                left += await self._hand_over(key, LEFT_BEHIND_S)
            if left > _MOST_LEFT_BEHIND:
                _LOGGER.warning("left %d MB behind for the next process, and no more", left >> 20)
                return

    # Who follows

    def _choose_followed(self) -> None:
        """Only where something may have changed: it is a lot of hashing for many replicas."""
        others = self._members.others if self._members.known else None
        able = self._members.mine.replicas.keys()
        if others is not self._considered or able != self._able or self._rounds % 10 == 1:
            self._considered, self._able = others, able
            self._following.follow_only(self._should_follow)

    def _should_follow(self, key: ReplicaKey) -> bool:
        """One of the chosen; else only until these know all, so that nothing is lost on the way."""
        if self._is_chosen(key):
            return True
        is_needed = self._writer.writes(key) or not self._chosen_know_all(key)
        return is_needed and key in self._following.feeds

    def _chosen_know_all(self, key: ReplicaKey) -> bool:
        """Whether all of them know as much as this process. One is not enough: it may be the one that leaves next."""
        number, others = replica_number(key), self._members.others
        mine = knowledge(self._following.stats(key))
        chosen = self._members.followers(key, FOLLOWERS)
        return all(id_ in others and others[id_].replicas[number] >= max(mine, UNSURE) for id_ in chosen)

    def _is_chosen(self, key: ReplicaKey) -> bool:
        if not self._members.known:
            return True
        chosen = self._members.followers(key, FOLLOWERS)
        return self._process_id in chosen or not chosen

    # Who writes

    def _settle_writer(self, key: ReplicaKey, mine: int, rivals: int) -> None:
        if self._writer.writes(key):
            self._stay_writer(key, is_outdone=mine < rivals or self._is_spare(key, mine))
            return
        self._outdone.pop(key, None)
        may_write = mine == COMPLETE or (mine > NOTHING and self._rounds > _GRACE)
        if may_write and mine >= rivals and key not in self._unverified and not self._is_spare(key, mine):
            self._writer.claim(key)

    def _is_spare(self, key: ReplicaKey, mine: int) -> bool:
        """Whether another process that is to follow, which this one is not, knows as much.

        That some process does is not enough: two that are not chosen would leave the writing to each other for ever.
        """
        if self._is_chosen(key):
            return False
        number, others = replica_number(key), self._members.others
        chosen = self._members.followers(key, FOLLOWERS)
        return any(others[id_].replicas.get(number, NOTHING) >= mine for id_ in chosen if id_ in others)

    def _stay_writer(self, key: ReplicaKey, *, is_outdone: bool) -> None:
        if not is_outdone:
            self._outdone.pop(key, None)
            return
        self._outdone[key] = self._outdone.get(key, 0) + 1
        if self._outdone[key] >= _PATIENCE:
            del self._outdone[key]
            self._writer.release(key)

    # What one learns of another

    async def _give(self) -> None:
        """Hand over what others asked for."""
        for key in self._writer.take_wanted():
            await self._hand_over(key, ASKED_FOR_S)

    async def _hand_over(self, key: ReplicaKey, life_s: int) -> int:
        """How many bytes. What it is worth now, without a connection, the receiver's replay will tell."""
        state = self._following.indexer.export(key)
        if state is None or state.sequence.since is None:
            return 0
        data = await asyncio.to_thread(state.encode)
        await self._handover.give(key, data, life_s)
        return len(data)

    async def _learn(self) -> None:
        """Where this process knows a part only: take over what lies there, or ask for it.

        What lay there before it asked was meant for another: if somebody can tell more, that is waited for.
        """
        partial = {
            key: amount
            for key, source in self._following.followable.items()
            if source.replay_endpoint and UNSURE < (amount := knowledge(self._following.stats(key))) < COMPLETE
        }
        self._stale = {key: self._stale[key] for key in partial if key in self._stale}
        if not partial:
            return
        stamps = await self._handover.ask([self._handover.stamp(key) for key in partial])
        for key, stamp in zip(partial, stamps):
            can_ask = self._members.best_known(key) > partial[key] and self._rounds >= self._ask_again.get(key, 0)
            is_stale = can_ask and stamp == self._stale.setdefault(key, stamp)
            if isinstance(stamp, bytes) and not is_stale and self._tried.get(key) != stamp:
                self._tried[key] = stamp
                await self._take_over(key, stamp)
            elif can_ask:
                await self._handover.ask([self._handover.wish(key)])

    async def _take_over(self, key: ReplicaKey, stamp: bytes) -> None:
        data = await self._handover.take(key, stamp)
        if data is None:
            return
        try:
            state = await asyncio.to_thread(FollowerState.decode, data)
            if history(state.sequence.since) > knowledge(self._following.stats(key)):
                self._resume(key, state)
        except ValueError as error:
            self._ask_again[key] = self._rounds + _DISAPPOINTED
            _LOGGER.warning("what another process knows of %s cannot be used: %s", key.replica_id, error)

    def _resume(self, key: ReplicaKey, state: FollowerState) -> None:
        """Readers keep what was written before: nothing of ``state`` is, until the replica's replay has shown it."""
        self._ask_again[key] = self._rounds + _TAKEN
        self._writer.release(key)
        self._following.indexer.resume(key, state)
        self._unverified.add(key)

    def _is_unverified(self, key: ReplicaKey) -> bool:
        stats = self._following.stats(key)
        return stats is not None and stats.since is not None and stats.state is not FeedState.FRESH

    def _forget_all_but(self, keys: AbstractSet[ReplicaKey]) -> None:
        """Replicas leave, and every restart of an engine makes a new key."""
        for kept in (self._outdone, self._tried, self._ask_again):
            for key in kept.keys() - keys:
                del kept[key]
