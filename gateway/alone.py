"""Alone: a gateway that shares nothing. Its index, its orders and its hash secret are its own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from prometheus_client.registry import Collector

from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import PrefixMatcher
from gateway.kv.index_budget import IndexBudget
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.router.order_effects import OrderEffects
from gateway.router.response_homes import Directory
from gateway.router.router import Router
from gateway.settings import Settings
from gateway.shared.orders.local_orders import LocalOrders
from gateway.shared.processes.hash_secret import HashSecret
from gateway.supervisor import Part


class Alone:
    """See :class:`~gateway.together.Together`, which has the same parts."""

    def __init__(
        self,
        settings: Settings,
        pool: ReplicaPool,
        routed: Routed,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        secret = settings.hash_secret.encode()
        self.secret = HashSecret(secret) if secret else HashSecret.random()
        self.orders = LocalOrders(wall_clock=wall_clock)
        self.memory = MemoryIndex()
        self.index: PrefixMatcher = self.memory
        self.responses: Directory | None = None
        self.index_losses = 0
        self.events = EventFollowing(
            pool, self.memory, routed, secret=self.secret.value, secret_id=self.secret.id, wall_clock=wall_clock
        )
        self.budget = IndexBudget(
            self.events.indexer,
            self.memory,
            routed,
            limit_mb=settings.index_memory_mb,
            clock=clock,
            l2=L2Estimate(ttl_s=settings.l2_ttl_s) if settings.l2 == "estimate" else None,
        )
        self.parts: tuple[Part, ...] = (self.events, self.budget)
        self.collectors: tuple[Collector, ...] = ()
        self._pool = pool

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """What is known of a replica's events; ``None``: it sends none."""
        return self.events.stats(key)

    def unindexed(self) -> Collection[ReplicaKey]:
        """None: nothing is shared."""
        return ()

    def may_check(self, _: ReplicaKey) -> bool:
        """There is nobody else."""
        return True

    def attach(self, router: Router) -> None:
        """Let orders take effect."""
        effects = OrderEffects(self.orders.book, self._pool, router)
        self.orders.listen(effects.apply)

    async def start(self) -> None:
        """Nobody is to be asked."""

    async def finish(self) -> None:
        """Nobody is to be told."""

    def status(self) -> dict[str, object]:
        return {"kind": "memory", "block_owners": self.memory.block_owners(), **self.budget.status()}
