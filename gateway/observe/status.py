"""Status: the gateway's state as JSON, for people and for `prefixway` commands. No secrets, no hashes, no prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway import __version__
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.observe.speeds_page import speeds_page


class Status:
    """Both views of the admin port."""

    def __init__(
        self,
        pool: ReplicaPool,
        index: MemoryIndex,
        feed: Callable[[ReplicaKey], FeedStats | None],
        speeds: Speeds,
        *,
        strategy: Callable[[], str],
        shared: Callable[[], Mapping[str, object]],
        orders: Callable[[], Mapping[str, object]],
        tokenizers: Callable[[], Mapping[str, str]],
        ready: Callable[[], bool],
        settings: Mapping[str, str],
        unknown_settings: tuple[str, ...],
        clock: Callable[[], float],
        more: Mapping[str, Callable[[], object]] | None = None,
        truth: Callable[[ReplicaKey], Mapping[str, object]] | None = None,
    ) -> None:
        """``shared``: the index, and the processes that share it. ``orders``: those in force. ``tokenizers``: by base
        model, what encodes its prompts. ``more``: further parts of the page, by their names. ``truth``: what became of
        predictions of a replica.
        """
        self._pool = pool
        self._index = index
        self._feed = feed
        self._speeds = speeds
        self._strategy = strategy
        self._shared = shared
        self._orders = orders
        self._tokenizers = tokenizers
        self._ready = ready
        self._settings = settings
        self._unknown_settings = unknown_settings
        self._clock = clock
        self._more = more or {}
        self._truth = truth or (lambda _: {})
        self._started_s = clock()

    def status(self) -> dict[str, object]:
        """The whole gateway."""
        return {
            "version": __version__,
            "uptime_s": round(self._clock() - self._started_s, 1),
            "ready": self._ready(),
            "strategy": self._strategy(),
            "models": dict(self._tokenizers()),
            "index": dict(self._shared()),
            "orders": dict(self._orders()),
            "speeds": speeds_page(self._speeds, self._clock()),
            **{name: part() for name, part in self._more.items()},
            "replicas": self.replicas(),
            "settings": dict(self._settings),
            "unknown_settings": list(self._unknown_settings),
        }

    def replicas(self) -> list[dict[str, object]]:
        """Each replica."""
        return [self._replica(replica) for replica in self._pool.replicas] + [
            {
                "id": server.id,
                "url": server.spec.origin.url,
                "healthy": False,
                "fault": server.fault,
                "held_back": server.held_back,
                "draining": server.draining,
                "drained": server.drained,
            }
            for server in self._pool.servers
            if not server.replicas
        ]

    def _replica(self, replica: Replica) -> dict[str, object]:
        server, report, now = replica.server, replica.report, self._clock()
        return {
            "id": replica.id,
            "url": server.spec.origin.url,
            "rank": replica.key.rank,
            "incarnation": replica.key.incarnation,
            "healthy": server.healthy,
            "fault": server.fault,
            "asleep": server.asleep,
            "held_back": server.held_back,
            "draining": server.draining,
            "drained": server.drained,
            "stalled": server.is_stalled(now),
            "breaker": server.breaker.state(now),
            "models": [card.id for card in server.cards],
            "speed": server.spec.speed,
            "inflight": replica.workload.own_inflight,
            "inflight_elsewhere": replica.workload.inflight - replica.workload.own_inflight,
            "decoding": replica.workload.own_decoding,
            "promised_s": round(replica.workload.promised_s(now), 4),
            "waiting": report.waiting,
            "running": report.running,
            "kv_usage": report.kv_usage,
            "kv_blocks": report.kv_blocks,
            "kv_tokens": report.kv_tokens,
            "prefix_queries": report.prefix_queries,
            "prefix_hits": report.prefix_hits,
            "owned_blocks": {tier.name.lower(): self._index.owned(replica.key, tier) for tier in Tier},
            "events": self._events(self._feed(replica.key)),
            "truth": dict(self._truth(replica.key)),
        }

    def _events(self, stats: FeedStats | None) -> dict[str, object]:
        if stats is None:
            return {"state": "off"}
        return {
            "state": stats.state.label,
            "trust": round(stats.trust, 4),
            "trust_reason": stats.trust_reason,
            "batches": stats.batches,
            "decoded": stats.decoded,
            "dropped": dict(stats.dropped),
            "unknown_fields": stats.unknown_fields,
            "malformed_frames": stats.malformed_frames,
            "lost": dict(stats.lost),
            "starts": stats.starts,
            "gaps": stats.gaps,
            "replays": stats.replays,
            "restarts": stats.restarts,
            "last_sequence": stats.last_sequence,
            "since": stats.since,
            "lag_s": stats.lag_s,
            "late_s": round(stats.late_s, 4),
            "block_sizes": {tier.name.lower(): size for tier, size in stats.block_sizes.items()},
        }
