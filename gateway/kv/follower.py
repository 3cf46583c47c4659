"""Follower: one replica followed, from its stream to the index.

Joins a Feed, which brings batches in order, and an Applier, which knows what they mean. Begins with nothing, or where
a follower in another process stood. Does not know other replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import zmq

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import AllBlocksCleared, BlockRemoved, EventBatch, decode
from gateway.kv.feed import Feed, FeedTiming
from gateway.kv.feed_stats import CLEARED, FeedStats
from gateway.kv.follower_state import FollowerState
from gateway.kv.history import AT_THE_BEGINNING, SequenceState
from gateway.kv.lateness import Lateness
from gateway.kv.resets import Resets
from gateway.kv.sequence import Sequence
from gateway.kv.tiers import Tier
from gateway.kv.trust import NO_DOUBT, FeedState

_LOGGER = logging.getLogger(__name__)


class FollowerOwner(Protocol):
    """Whom a follower asks for what concerns others too."""

    @property
    def wall_clock(self) -> Callable[[], float]:
        """Seconds since the epoch."""
        ...

    def begin(self, follower: Follower, state: FollowerState | None) -> Applier:
        """Let the index begin the follower's key, with what ``state`` says or nothing."""
        ...

    def replace(self, follower: Follower) -> Applier:
        """The follower's engine process is a new one: a new key takes the old one's place."""
        ...

    def caught_up(self, follower: Follower) -> None:
        """Events tell all there is to know."""
        ...

    def state_changed(self, follower: Follower) -> None:
        """The follower's key, or its stats' state, completeness or block sizes, changed."""
        ...


class Follower:
    """A :class:`~gateway.kv.feed.FeedSink` that decodes and applies. ``task`` runs it; its owner's to write."""

    def __init__(self, key: ReplicaKey, source: EventSource, owner: FollowerOwner) -> None:
        self.key = key
        self.source = source
        self.stats = FeedStats()
        self.task: asyncio.Task[None] | None = None
        self._owner = owner
        self._feed: Feed | None = None
        self._told: object = None
        self._lateness = Lateness()
        self._resets = Resets()
        self.begin(None)

    def __repr__(self) -> str:
        return f"<Follower of {self.key.replica_id} {self._sequence!r}>"

    def begin(self, state: FollowerState | None) -> None:
        """Know what ``state`` says, or nothing. The next :meth:`run` goes on from there; end the one that runs."""
        stats = self.stats
        stats.state = FeedState.BLIND
        self._applier = self._owner.begin(self, state)
        self._sequence = Sequence(
            replayable=self.source.replay_endpoint is not None, state=state.sequence if state else AT_THE_BEGINNING
        )
        stats.since, stats.last_sequence = self._sequence.since, self._sequence.last
        self._at_start = True
        self.settled()

    async def run(self, context: zmq.Context[zmq.Socket[bytes]], timing: FeedTiming) -> None:
        """Follow until cancelled. Another time, as after an error, it begins at the beginning.

        Raises ``zmq.ZMQError`` for an address that is none.
        """
        if not self._at_start:
            self.begin(None)
        self._at_start = False
        self.stats.starts += 1
        self._feed = Feed(self.source, self, self.stats, self._sequence, context=context, timing=timing)
        await self._feed.run()

    def hint_restart(self) -> None:
        """Somebody saw that the engine process is a new one: the stream is asked."""
        if self._feed is not None:
            self._feed.hint_restart()

    def reset_seen(self) -> None:
        """Somebody saw that the engine emptied its GPU cache, which its events tell with its next step, or have."""
        if self._resets.noticed(self._owner.wall_clock()):
            self.stats.removed += CLEARED
            self._applier.clear_gpu()

    def owned(self) -> Mapping[Tier, Collection[int]]:
        """Own hashes of all that is held, as a copy; tiers never told of are left out."""
        return self._applier.owned()

    def announced(self, tier: Tier, block: int) -> bool:
        """Whether events of this engine process ever told of a block, by own hash."""
        return self._applier.announced(tier, block)

    def owned_blocks(self, tier: Tier) -> int:
        """How many blocks of a tier are held."""
        return self._applier.owned_blocks(tier)

    @property
    def applier(self) -> Applier:
        """What is known by now; another one when the engine process is."""
        return self._applier

    def position(self) -> SequenceState:
        """Which batches were applied, by number and digest."""
        return self._sequence.export()

    def export(self, secret_id: str) -> FollowerState:
        """All that is known. Cheap: a few copies of dictionaries."""
        return FollowerState(self.key.namespace, secret_id, self._sequence.export(), self._applier.export())

    # FeedSink

    def batch(self, sequence: int, payload: bytes) -> bool:
        """Decode a batch and apply it."""
        batch = decode(payload)
        stats = self.stats
        stats.batches += 1
        stats.decoded += len(batch.events)
        stats.unknown_fields += batch.unknown_fields
        removed = _removed(batch)
        stats.removed += removed
        if batch.lossy:
            self.lost("unreadable")
        for dropped in (batch.dropped, self._applier.apply(batch)):
            if dropped:
                stats.dropped.update(dropped)
        if batch.ts and not self._sequence.replaying:  # what is replayed is as old as it is
            now = self._owner.wall_clock()
            stats.lag_s = max(0.0, now - batch.ts)
            stats.late_s = self._lateness.note(batch.ts, now)
            if removed >= CLEARED:
                self._resets.told(now)
        return not batch.lossy

    def lost(self, reason: str) -> None:
        """Believe nothing that was known."""
        level = logging.DEBUG if self.stats.lost[reason] else logging.WARNING  # it may happen again and again
        _LOGGER.log(level, "events of %s were missing (%s): starting over", self.key.replica_id, reason)
        self.stats.lost[reason] += 1
        self._applier.lose()

    def restarted(self) -> None:
        """Let the pool name the new engine process, and forget the old one."""
        self.stats.restarts += 1
        self.stats.block_sizes.clear()
        self.stats.l0_block_size = 0
        self.stats.late_s = 0.0
        self.stats.doubt = NO_DOUBT
        self._lateness = Lateness()
        self._resets = Resets()
        self._applier = self._owner.replace(self)
        _LOGGER.info("%s is a new engine process: %r", self.key.replica_id, self.key)

    def caught_up(self) -> None:
        """Pass it on."""
        self._owner.caught_up(self)

    def settled(self) -> None:
        """Tell the owner if what others go by has changed."""
        stats = self.stats
        stats.judge()
        tells = (self.key, stats.state, stats.since, tuple(stats.block_sizes.items()))
        if tells != self._told:
            self._told = tells
            self._owner.state_changed(self)

    def saw_block_size(self, tier: Tier, block_size: int) -> None:
        """Note what a tier's blocks measure, in tokens."""
        self.stats.block_sizes[tier] = block_size
        if tier is Tier.L0:
            self.stats.l0_block_size = block_size


def _removed(batch: EventBatch) -> int:
    """Blocks that a batch says were evicted."""
    removed = 0
    for event in batch.events:
        if isinstance(event, BlockRemoved):
            removed += len(event.hashes)
        elif isinstance(event, AllBlocksCleared):
            removed += CLEARED
    return removed
