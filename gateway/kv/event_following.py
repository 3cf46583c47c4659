"""EventFollowing: keeps the indexer following whoever is in the pool, and tells the router what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import PrefixIndex
from gateway.kv.indexer import Indexer
from gateway.kv.routed import Routed


class EventFollowing:
    """A listener of the pool, and the router's ``EventKnowledge``.

    A replica without events has no stats: what is known of it is what was sent there.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        index: PrefixIndex,
        routed: Routed,
        *,
        secret: bytes,
        wall_clock: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._routed = routed
        self._indexer = Indexer(
            index, secret=secret, restarted=self._restarted, caught_up=routed.forget_kept, wall_clock=wall_clock
        )

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._indexer.run()

    @property
    def feeds(self) -> Mapping[ReplicaKey, FeedStats]:
        """By the key of each replica whose events are followed."""
        return self._indexer.stats

    # PoolListener

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        if source is not None:
            self._indexer.follow(replica.key, source)

    def left(self, replica: Replica) -> None:
        self._indexer.unfollow(replica.key)
        self._routed.drop(replica.key)

    def process_changed(self, replica: Replica) -> None:
        if self.stats(replica.key) is None:
            self._restarted(replica.key)
        else:
            self._indexer.restarted_hint(replica.key)

    # EventKnowledge

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """``None``: its events are not followed."""
        return self._indexer.stats_of(key)

    def _restarted(self, key: ReplicaKey) -> ReplicaKey:
        self._routed.drop(key)
        return self._pool.restart(key)
