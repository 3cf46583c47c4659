"""Indexer: follows the event streams of the replicas it is told of, and writes what they hold into an index.

Owns the feeds and their tasks. Does not know where replicas come from; the pool says who is to be followed,
and is asked for the new key when a stream shows that an engine process is a new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

import zmq

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import decode
from gateway.kv.feed import DEFAULT_TIMING, Feed, FeedTiming
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import PrefixIndex
from gateway.kv.tiers import Tier
from gateway.supervisor import keep_running

_LOGGER = logging.getLogger(__name__)
#: Before a feed that failed is started anew.
_RETRY_S = 5.0
#: Far above any GPU's cache: 32 million tokens at 16 a block.
MAX_BLOCKS_PER_TIER = 2_000_000

NewIncarnation = Callable[[ReplicaKey], ReplicaKey]


class Follower:
    """One replica followed: a :class:`~gateway.kv.feed.FeedSink` that decodes and applies."""

    def __init__(self, key: ReplicaKey, source: EventSource, owner: Indexer) -> None:
        self.key = key
        self.source = source
        self.stats = FeedStats()
        self.feed: Feed | None = None
        self.task: asyncio.Task[None] | None = None
        self._owner = owner
        self._applier = owner.begin(self)

    def batch(self, sequence: int, payload: bytes) -> None:
        """Decode a batch and apply it."""
        batch = decode(payload)
        stats = self.stats
        stats.batches += 1
        stats.decoded += len(batch.events)
        stats.unknown_fields += batch.unknown_fields
        if batch.lossy:
            self.lost("unreadable")
        for dropped in (batch.dropped, self._applier.apply(batch)):
            if dropped:
                stats.dropped.update(dropped)
        if batch.ts:
            stats.lag_s = max(0.0, self._owner.wall_clock() - batch.ts)

    def lost(self, reason: str) -> None:
        """Believe nothing that was known."""
        level = logging.DEBUG if self.stats.lost[reason] else logging.WARNING  # it may happen again and again
        _LOGGER.log(level, "events of %s are missing for good (%s): starting over", self.key.replica_id, reason)
        self.stats.lost[reason] += 1
        self._applier.lose()

    def restarted(self) -> None:
        """Let the pool name the new engine process, and forget the old one."""
        self.stats.restarts += 1
        self.stats.block_sizes.clear()
        self.stats.l0_block_size = 0
        self._applier = self._owner.replace(self)
        _LOGGER.info("%s is a new engine process: %r", self.key.replica_id, self.key)

    def caught_up(self) -> None:
        """Events tell all there is to know."""
        self._owner.caught_up(self.key)

    def start_over(self) -> None:
        """Forget all that was applied, before a feed begins at the beginning."""
        self._applier = self._owner.begin(self)

    def saw_block_size(self, tier: Tier, block_size: int) -> None:
        """Note what a tier's blocks measure, in tokens."""
        self.stats.block_sizes[tier] = block_size
        if tier is Tier.L0:
            self.stats.l0_block_size = block_size


class Indexer:
    """``restarted`` answers with the key of the engine process that took a key's place; ``caught_up`` hears of each
    replica whose events begin to tell all there is.

    ``wall_clock``: seconds since the epoch, for the lag of events alone.
    """

    def __init__(
        self,
        index: PrefixIndex,
        *,
        secret: bytes,
        restarted: NewIncarnation,
        caught_up: Callable[[ReplicaKey], None],
        wall_clock: Callable[[], float],
        timing: FeedTiming = DEFAULT_TIMING,
        max_blocks_per_tier: int = MAX_BLOCKS_PER_TIER,
    ) -> None:
        self.caught_up = caught_up
        self.wall_clock = wall_clock
        self._index = index
        self._secret = secret
        self._restarted = restarted
        self._timing = timing
        self._max_blocks_per_tier = max_blocks_per_tier
        self._followers: dict[ReplicaKey, Follower] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None

    def __repr__(self) -> str:
        return f"<Indexer following {len(self._followers)} replicas>"

    @property
    def stats(self) -> Mapping[ReplicaKey, FeedStats]:
        """By the current key of each followed replica."""
        return {key: follower.stats for key, follower in self._followers.items()}

    def stats_of(self, key: ReplicaKey) -> FeedStats | None:
        """Of one replica; ``None``: it is not followed."""
        follower = self._followers.get(key)
        return None if follower is None else follower.stats

    def follow(self, key: ReplicaKey, source: EventSource) -> None:
        """Follow a replica's events, now or as soon as :meth:`run` does. Following it already: no change."""
        known = self._followers.get(key)
        if known is not None and known.source == source:
            return
        self.unfollow(key)
        follower = self._followers[key] = Follower(key, source, self)
        self._start(follower)

    def unfollow(self, key: ReplicaKey) -> None:
        """Stop following a replica and forget what it holds. Unknown: no change."""
        follower = self._followers.pop(key, None)
        if follower is None:
            return
        if follower.task is not None:
            follower.task.cancel()
        self._index.drop(key)

    def restarted_hint(self, key: ReplicaKey) -> None:
        """Somebody saw that a replica's engine process is a new one; its stream is asked."""
        follower = self._followers.get(key)
        if follower is not None and follower.feed is not None:
            follower.feed.hint_restart()

    async def run(self) -> None:
        """Run all feeds until cancelled."""
        self._context = zmq.Context()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for follower in self._followers.values():
                    self._start(follower)
                await asyncio.get_running_loop().create_future()  # for ever
        finally:
            self._tasks = None
            self._context.destroy(linger=0)
            self._context = None

    def begin(self, follower: Follower) -> Applier:
        """A follower's key holds nothing yet."""
        self._index.begin(follower.key, {})
        return Applier(
            follower.key,
            self._index,
            secret=self._secret,
            block_size_seen=follower.saw_block_size,
            max_blocks_per_tier=self._max_blocks_per_tier,
        )

    def replace(self, follower: Follower) -> Applier:
        """A follower's engine process is a new one: a new key takes the old one's place."""
        old = follower.key
        follower.key = self._restarted(old)
        applier = self.begin(follower)
        if follower.key != old:
            self._index.drop(old)
            self._followers[follower.key] = self._followers.pop(old)
        return applier

    def _start(self, follower: Follower) -> None:
        if self._tasks is not None and self._context is not None:
            run = partial(self._feed_from_the_beginning, follower, self._context)
            name = f"the feed of {follower.key.replica_id}"
            follower.task = self._tasks.create_task(keep_running(run, name, pause_s=_RETRY_S))

    async def _feed_from_the_beginning(self, follower: Follower, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        follower.start_over()
        follower.stats.starts += 1
        follower.feed = Feed(follower.source, follower, follower.stats, context=context, timing=self._timing)
        await follower.feed.run()
