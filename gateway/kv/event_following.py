"""EventFollowing: keeps the indexer following whoever is in the pool, and tells the router what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.feed import DEFAULT_TIMING, FeedTiming
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import IndexWriter
from gateway.kv.indexer import Indexer
from gateway.kv.routed import Routed
from gateway.kv.salted_prompts import SaltedPrompts

Wanted = Callable[[ReplicaKey], bool]


class EventFollowing:
    """A listener of the pool, and the router's ``EventKnowledge``.

    A replica without events has no stats: what is known of it is what was sent there. All that have events are
    followed, unless other processes share the work: then those of :meth:`follow_only`.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        index: IndexWriter,
        routed: Routed,
        *,
        secret: bytes,
        secret_id: str = "",
        wall_clock: Callable[[], float],
        timing: FeedTiming = DEFAULT_TIMING,
    ) -> None:
        self._pool = pool
        self._routed = routed
        self._sources: dict[Replica, EventSource] = {}
        self._wanted: Wanted | None = None
        #: Tell it of prompts that are sent with a cache salt.
        self.salted = SaltedPrompts()
        self._indexer = Indexer(
            index,
            secret=secret,
            secret_id=secret_id,
            restarted=self._restarted,
            caught_up=routed.forget_kept,
            wall_clock=wall_clock,
            timing=timing,
            salted=self.salted,
        )
        pool.listen_to_resets(self._emptied)

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._indexer.run()

    @property
    def indexer(self) -> Indexer:
        return self._indexer

    @property
    def feeds(self) -> Mapping[ReplicaKey, FeedStats]:
        """By the key of each replica whose events are followed."""
        return self._indexer.stats

    # Who is followed

    @property
    def followable(self) -> Mapping[ReplicaKey, EventSource]:
        """Where each replica of the pool that has events publishes them, followed or not."""
        return {replica.key: source for replica, source in self._sources.items()}

    def has_events(self, key: ReplicaKey) -> bool:
        """Whether a replica of the pool publishes events, followed or not."""
        return self._pool.replica(key) in self._sources

    def follow_only(self, wanted: Wanted | None) -> None:
        """Follow the replicas that ``wanted`` says yes to, and no others; ``None``: all. See :meth:`reconsider`."""
        self._wanted = wanted
        self.reconsider()

    def reconsider(self) -> None:
        """What is wanted may have changed. A replica that is not followed any more keeps no entries in the index."""
        for replica in self._sources:
            self._follow_if_wanted(replica)

    # PoolListener

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        if source is not None:
            self._sources[replica] = source
            self._follow_if_wanted(replica)

    def left(self, replica: Replica) -> None:
        self._sources.pop(replica, None)
        self._indexer.unfollow(replica.key)
        self._routed.drop(replica.key)

    def process_changed(self, replica: Replica) -> None:
        if self._indexer.is_followed(replica.key):
            self._indexer.restarted_hint(replica.key)
        else:
            self._restarted(replica.key)  # no events will tell

    # EventKnowledge

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """``None``: its events are not followed."""
        return self._indexer.stats_of(key)

    def _follow_if_wanted(self, replica: Replica) -> None:
        if self._wanted is None or self._wanted(replica.key):
            self._indexer.follow(replica.key, self._sources[replica])
        else:
            self._indexer.unfollow(replica.key)

    def _emptied(self, replica: Replica) -> None:
        """Its GPU cache was, while its process went on: by a reset of its prefix cache, or since it sleeps."""
        self._indexer.reset_seen(replica.key)
        self._routed.forget_past(replica.key)

    def _restarted(self, key: ReplicaKey) -> ReplicaKey:
        self._routed.drop(key)
        return self._pool.restart(key)
