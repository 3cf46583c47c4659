"""Together: a process among others, all on one Redis: index, hash secret, orders and load are shared.

Composition only: what each part does, and does without Redis, is in :mod:`gateway.shared`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from prometheus_client.registry import Collector

from gateway import __version__
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import IndexWriter, PrefixMatcher
from gateway.kv.index_budget import IndexBudget
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tee import Tee
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.observe.member_metrics import MemberMetrics
from gateway.observe.shared_metrics import SharedMetrics
from gateway.router.order_effects import DrainEffects, OrderEffects
from gateway.router.router import Router
from gateway.settings import Settings
from gateway.shared.index.handover import Handover
from gateway.shared.index.indexing_watch import IndexingWatch
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.index.redis_writer import RedisWriter
from gateway.shared.index.registry import Details
from gateway.shared.index.registry_reading import RegistryReading
from gateway.shared.index.registry_sweep import RegistrySweep
from gateway.shared.index.shared_index import SharedIndex
from gateway.shared.index.succession import Succession, known_replicas
from gateway.shared.index.written_replica import Owned
from gateway.shared.link.keys import SCHEMA, Keys
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.peer_load import PeerLoad
from gateway.shared.orders.fleet_orders import FleetOrders
from gateway.shared.processes.divergence import Divergence
from gateway.shared.processes.hash_secret import HashSecret
from gateway.shared.processes.heartbeat import Heartbeat, HeartbeatPart
from gateway.shared.processes.member_record import MemberRecord, replica_number
from gateway.shared.processes.members import Members
from gateway.shared.processes.secret_agreement import SecretAgreement
from gateway.shared.responses.response_directory import ResponseDirectory
from gateway.supervisor import Part

_LOGGER = logging.getLogger(__name__)
#: A start does not wait longer for Redis: it can do without.
_START_S = 2.0
_FINISH_S = 5.0

Kind = Literal["gateway", "indexer"]


class Together:
    """``kind``: what this process is. ``schema``: that of the keys, for a test of an upgrade."""

    def __init__(
        self,
        settings: Settings,
        pool: ReplicaPool,
        routed: Routed,
        *,
        kind: Kind = "gateway",
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        schema: int = SCHEMA,
    ) -> None:
        self.process_id = secrets.token_hex(8)
        self._settings = settings
        self._kind: Kind = kind
        self._leaving = False
        self._has_started = False
        self._pool = pool
        self._routed = routed
        self._clock = clock
        self._indexes = settings.shares_index and (kind == "indexer" or settings.indexer == "inside")
        self.keys = Keys(settings.redis_prefix, schema)
        self.link = self._make_link()
        self.secret, self._agreement = _secret(settings, self.keys)
        self.orders = FleetOrders(self.link, self.keys, wall_clock=wall_clock)
        self.memory = MemoryIndex()
        self.remote = RedisIndex(self.link, self.keys, secret_id=lambda: self.secret.id)
        self.writer = self._make_writer()
        self.events = self._make_events(wall_clock)
        self.budget = self._make_budget()
        self._router: Router | None = None
        self.responses = ResponseDirectory(self.link, self.keys, clock=clock)
        self.members = Members(self.keys, self._record, clock=clock)
        self.divergence = Divergence(self.members, clock=clock)
        self.succession = Succession(
            self.process_id, self.members, self.events, self.writer, Handover(self.link, self.keys)
        )
        self.peer_load: PeerLoad | None = None
        self._shared_index = self._make_index()
        self.index: PrefixMatcher = self.memory
        self._knowledge: EventFollowing | SharedIndex = self.events
        if settings.shares_index:
            self.index = self._knowledge = self._shared_index
        self._heartbeat = self._make_heartbeat()
        self.metrics = SharedMetrics(self.link, self.writer, self.remote, lambda: self.peer_load)
        self.collectors: tuple[Collector, ...] = (
            self.metrics,
            MemberMetrics(self.members, self.divergence, self.orders.book),
        )
        self._listen()

    @property
    def parts(self) -> tuple[Part, ...]:
        """What runs in the background."""
        parts: list[Part] = [self.events, self.budget, self._heartbeat, self.responses]
        if self._settings.shares_index:
            parts.append(RegistryReading(self.link, self.remote, self._namespaces))
            parts.append(RegistrySweep(self.link, self.keys, self.remote))
        if self._indexes:
            parts += [self.writer, self.succession]
        if self.peer_load is not None:
            parts.append(self.peer_load)
        return tuple(parts)

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """What is known of a replica's events, here or elsewhere; ``None``: it sends none."""
        return self._knowledge.stats(key)

    @property
    def index_losses(self) -> int:
        """How often what this process wrote was found to be gone from Redis."""
        return self.writer.stats.epochs["lost"]

    def unindexed(self) -> list[ReplicaKey]:
        """Replicas whose events should be in Redis, and are not."""
        if not self._settings.shares_index:
            return []
        return [key for key in self._to_be_indexed() if not self._is_indexed(key)]

    def may_check(self, key: ReplicaKey) -> bool:
        """The writer of a replica's entries; where others follow the events, one gateway of those there are."""
        if self._indexes:
            return self.writer.writes(key)
        return self.members.first_gateway(key) == self.process_id

    def attach(self, router: Router) -> None:
        """Let orders take effect, and tell the others what this process sends where."""
        self._router = router
        self.orders.listen(OrderEffects(self.orders.book, self._pool, router).apply)
        if self._settings.share_load:
            self.peer_load = PeerLoad(
                self.link,
                self.keys,
                process_id=self.process_id,
                secret=self.secret,
                pool=self._pool,
                routed=self._routed,
                utilisation=router.utilisation,
                speeds=router.speeds,
                knowledge=router,
                l2=self.budget.l2,
                clock=self._clock,
            )
            router.listen(self.peer_load)

    async def start(self) -> None:
        """Agree with the others on secret and orders before the first request, if Redis answers in time."""
        try:
            async with asyncio.timeout(_START_S):
                await self._heartbeat.beat()
        except TimeoutError:
            _LOGGER.warning("redis does not answer: starting without")
        self._has_started = True

    async def finish(self) -> None:
        """Leave in order, once nothing runs any more."""
        with suppress(RedisError, TimeoutError):
            async with asyncio.timeout(_FINISH_S):
                if self._indexes:
                    await self._say_so()
                    await self.succession.finish()
        await self.members.leave(self.link)
        await self.link.close()

    async def _say_so(self) -> None:
        """Tell the others before anything is left to them: of those that leave at once each must know of the other."""
        self._leaving = True
        await self._heartbeat.beat()

    def status(self) -> dict[str, object]:
        """For /status."""
        self.members.refresh()
        return {
            "kind": "redis" if self._settings.shares_index else "memory",
            "block_owners": self.memory.block_owners(),
            **self.budget.status(),
            "redis": self._settings.redis_url.shown,
            "redis_up": self.link.is_up,
            "redis_refused": dict(self.link.stats.refused),
            "process": self.process_id,
            "writes": sorted(key.replica_id for key in self.writer.written),
            "registered": {
                replica_id: {"epoch": entry.epoch, "state": entry.details.state, "complete": entry.details.complete}
                for registry in self.remote.registries.values()
                for replica_id, entry in registry.entries.items()
            },
            "under_another_secret": sorted(
                replica_id for registry in self.remote.registries.values() for replica_id in registry.foreign
            ),
            "members": self._members(),
            "divergence": self.divergence.view(),
        }

    def _members(self) -> list[dict[str, object]]:
        return [
            {
                "process": record.process_id,
                "name": record.name,
                "kind": record.kind,
                "version": record.version,
                "strategy": record.strategy,
                "orders_version": record.orders_version,
                "secret": record.secret_id,
            }
            for record in (self.members.mine, *self.members.others.values())
        ]

    # Parts

    def _make_link(self) -> RedisLink:
        target = self._settings.redis
        if target is None:
            raise ValueError("no PREFIXWAY_REDIS_URL")
        return RedisLink(
            target,
            clock=self._clock,
            budget_s=self._settings.index_budget_ms / 1000,
            timeout_s=self._settings.redis_timeout_s,
            observe_lookup_s=self._looked_up,
        )

    def _make_budget(self) -> IndexBudget:
        settings = self._settings
        estimates_l2 = settings.l2 == "estimate" and self._kind == "gateway"
        return IndexBudget(
            self.events.indexer,
            self.memory,
            self._routed,
            limit_mb=settings.index_memory_mb,
            clock=self._clock,
            l2=L2Estimate(ttl_s=settings.l2_ttl_s) if estimates_l2 else None,
        )

    def _make_events(self, wall_clock: Callable[[], float]) -> EventFollowing:
        secret = self.secret
        return EventFollowing(
            self._pool,
            self._written(),
            self._routed,
            secret=secret.value,
            secret_id=secret.id,
            wall_clock=wall_clock,
        )

    def _written(self) -> IndexWriter:
        return Tee(self.memory, self.writer) if self._indexes else self.memory

    def _make_writer(self) -> RedisWriter:
        return RedisWriter(
            self.link,
            self.keys,
            self.process_id,
            owned=self._owned,
            details=self._details,
            storage=self.remote.storage,
        )

    def _make_index(self) -> SharedIndex:
        return SharedIndex(
            self.memory,
            self.remote,
            followed=self.events.stats,
            is_own=self.succession.knows_best,
            has_events=self.events.has_events,
            is_up=lambda: self.link.is_up,
        )

    def _make_heartbeat(self) -> Heartbeat:
        parts: list[HeartbeatPart] = [self.members, self.orders]
        if self._agreement is not None:
            parts.insert(0, self._agreement)
        after = [self.divergence.check, self._forget_kept]
        if self._settings.shares_index and not self._indexes:
            watch = IndexingWatch(self._to_be_indexed, self._is_indexed, clock=self._clock)
            after.append(watch.look)
        return Heartbeat(self.link, parts, after=after)

    def _listen(self) -> None:
        self.secret.listen(self._secret_changed)
        self.remote.listen(self._forget_kept)
        if self._kind == "indexer":
            self.orders.listen(DrainEffects(self.orders.book, self._pool).apply)
        if self._indexes:
            self.events.indexer.listen(self.writer.details_changed)
        else:
            self.events.follow_only(lambda _: not self._settings.shares_index)

    # What happens

    def _secret_changed(self) -> None:
        """Everything that was hashed under the old one means nothing any more."""
        level = logging.INFO if self._has_started else logging.DEBUG  # a start takes over the fleet's
        _LOGGER.log(level, "another hash secret is in use: %s", self.secret.id)
        for replica in self._pool.replicas:
            self._routed.drop(replica.key)
        if self.budget.l2 is not None:
            self.budget.l2.clear()
        self.remote.forget_registries()
        self.events.indexer.use_secret(self.secret.value, self.secret.id)

    def _forget_kept(self) -> None:
        """What was kept of a blind replica counts no more once another process hears of it, or Redis answers again."""
        for replica in self._pool.replicas if self.link.is_up else ():
            entry = self.remote.entry(replica.key)
            if entry is not None and entry.stats.state is FeedState.FRESH:
                self._routed.forget_kept(replica.key)

    def _looked_up(self, seconds: float) -> None:
        self.metrics.looked_up(seconds)

    def _owned(self, key: ReplicaKey) -> Owned:
        return self.events.indexer.owned(key)

    def _details(self, key: ReplicaKey, tiers: tuple[Tier, ...]) -> Details:
        stats = self.events.stats(key) or FeedStats()
        return Details(
            self.secret.id,
            state=stats.state.label,
            complete=stats.complete,
            block_sizes={int(tier): size for tier, size in stats.block_sizes.items()},
            tiers=tuple(map(int, tiers)),
            lag_s=stats.lag_s,
        )

    def _record(self) -> MemberRecord:
        known = known_replicas(self.events) if self._indexes else {}
        return MemberRecord(
            self.process_id,
            schema=self.keys.schema,
            leaving=self._leaving,
            name=f"{socket.gethostname()}:{os.getpid()}",
            kind=self._kind,
            version=__version__,
            strategy=self._router.strategy if self._router else "",
            orders_version=self.orders.book.version,
            secret_id=self.secret.id,
            replicas={replica_number(key): amount for key, amount in known.items()},
        )

    def _to_be_indexed(self) -> list[ReplicaKey]:
        """Those that have events. An indexer leaves a drained server at once, however long requests run on there."""
        servers = {key: self._pool.server(key.server_id) for key in self.events.followable}
        return [key for key, server in servers.items() if server is not None and not server.draining]

    def _is_indexed(self, key: ReplicaKey) -> bool:
        """As far as can be known: without Redis nothing is said to be missing."""
        return self.remote.entry(key) is not None or not self.link.is_up

    def _namespaces(self) -> set[str]:
        return {replica.key.namespace for replica in self._pool.replicas}


def _secret(settings: Settings, keys: Keys) -> tuple[HashSecret, SecretAgreement | None]:
    """The configured one, or one that the processes agree on."""
    configured = settings.hash_secret.encode()
    if configured:
        return HashSecret(configured), None
    secret = HashSecret.random()
    return secret, SecretAgreement(secret, keys)
