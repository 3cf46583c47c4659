"""SharedIndex: what this process knows by itself, and of the other replicas what Redis says.

A replica whose events this process follows, completely, is matched in memory, for nothing, and goes on to be when
Redis is gone. The others are asked for in one look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import Chains, IndexUnavailable
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import TierTokens
from gateway.kv.trust import FeedState
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.link.redis_errors import RedisError


class SharedIndex:
    """The router's index, and what it knows of the feeds.

    ``followed`` gives the stats of a replica that this process follows; ``is_own`` says whether its own knowledge of
    one is the best there is; ``is_up`` whether Redis answers.
    """

    def __init__(
        self,
        local: MemoryIndex,
        remote: RedisIndex,
        *,
        followed: Callable[[ReplicaKey], FeedStats | None],
        is_own: Callable[[ReplicaKey], bool],
        has_events: Callable[[ReplicaKey], bool],
        is_up: Callable[[], bool],
    ) -> None:
        self._local = local
        self._remote = remote
        self._followed = followed
        self._is_own = is_own
        self._has_events = has_events
        self._is_up = is_up
        self._unheard = FeedStats(state=FeedState.BLIND)

    def knows(self, keys: Collection[ReplicaKey]) -> bool:
        """See :class:`~gateway.kv.index.PrefixIndex`."""
        return all(map(self._is_own, keys))

    def match_now(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """See :class:`~gateway.kv.index.PrefixIndex`."""
        return self._local.match_now(chains, keys)

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """See :class:`~gateway.kv.index.PrefixIndex`. Raises ``IndexUnavailable`` with what is known all the same."""
        own = [key for key in keys if self._is_own(key)]
        known = self._local.match_now(chains, own)
        if len(own) == len(keys):
            return known
        others = [key for key in keys if key not in known]
        try:
            known.update(await self._remote.match(chains, others))
        except RedisError as error:
            known.update(self._local.match_now(chains, others))
            raise IndexUnavailable(known) from error
        return known

    # EventKnowledge

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """As far as its events are known here or to another process; ``None``: it sends none."""
        followed = self._followed(key)
        if followed is not None and self._is_own(key):
            return followed
        entry = self._remote.entry(key)
        if entry is not None:
            return entry.stats if self._is_up() and not entry.has_lapsed else entry.blind
        if followed is not None:
            return followed
        return self._unheard if self._has_events(key) else None
