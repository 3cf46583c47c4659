"""Whether a process is on its own or one of several, as the settings say. Only the latter needs Redis's client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from prometheus_client.registry import Collector

from gateway.alone import Alone
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index import PrefixMatcher
from gateway.kv.index_budget import IndexBudget
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.router.response_homes import Directory
from gateway.router.router import Router
from gateway.settings import Settings, check_redis_client
from gateway.shared.link.keys import SCHEMA
from gateway.shared.orders.orders import Orders
from gateway.shared.processes.hash_secret import HashSecret
from gateway.supervisor import Part


class Fellowship(Protocol):
    """What a gateway has together with others, or would have."""

    @property
    def secret(self) -> HashSecret:
        """Keys the block hashes."""
        ...

    @property
    def orders(self) -> Orders: ...

    @property
    def events(self) -> EventFollowing:
        """The events that this process follows itself."""
        ...

    @property
    def memory(self) -> MemoryIndex:
        """What they tell."""
        ...

    @property
    def index(self) -> PrefixMatcher:
        """What requests are matched with."""
        ...

    @property
    def budget(self) -> IndexBudget:
        """What bounds the memory that this takes."""
        ...

    @property
    def responses(self) -> Directory | None:
        """Who knows where stored responses are kept that this process did not see made; ``None``: nobody."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is to run in the background, once :meth:`attach` was called."""
        ...

    @property
    def collectors(self) -> tuple[Collector, ...]: ...

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """What is known of a replica's events, here or elsewhere; ``None``: it sends none."""
        ...

    @property
    def index_losses(self) -> int:
        """How often what this process wrote into a shared index was found to be gone."""
        ...

    def unindexed(self) -> Collection[ReplicaKey]:
        """Replicas whose events should be in a shared index, and are not."""
        ...

    def may_check(self, key: ReplicaKey) -> bool:
        """Whether this process is the one that sends a replica the small requests of checks."""
        ...

    def attach(self, router: Router) -> None:
        """This is who sends requests here."""
        ...

    async def start(self) -> None:
        """Before the first request. Takes a moment, whatever the others do."""
        ...

    async def finish(self) -> None:
        """Once nothing runs any more."""
        ...

    def status(self) -> dict[str, object]:
        """For /status."""
        ...


def fellowship(
    settings: Settings,
    pool: ReplicaPool,
    routed: Routed,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    schema: int = SCHEMA,
) -> Fellowship:
    """Raises ``SettingsError`` where Redis is wanted and its client is not installed.

    ``schema``: that of the keys, for a test of an upgrade.
    """
    if not settings.uses_redis:
        return Alone(settings, pool, routed, clock=clock, wall_clock=wall_clock)
    check_redis_client(settings)
    from gateway.together import Together

    return Together(settings, pool, routed, clock=clock, wall_clock=wall_clock, schema=schema)
