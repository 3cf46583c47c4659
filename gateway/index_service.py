"""IndexService: the indexer alone. It follows replicas' events and writes what they hold into Redis; it serves nobody.

As a sidecar of one replica, or one process for many; several of these share the replicas, and stand in for each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic

from prometheus_client import CollectorRegistry

from gateway.asgi_server import listen_socket
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.fleet_parts import FleetParts
from gateway.kv.routed import Routed
from gateway.observe.admin_app import admin_app
from gateway.observe.announcement import announce
from gateway.observe.fleet_metrics import FleetMetrics
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from gateway.observe.status import Status
from gateway.setting_field import SettingsError
from gateway.settings import Settings, check_redis_client
from gateway.supervisor import Part, keep_running

_LOGGER = logging.getLogger(__name__)


class IndexService:
    """Make it inside a running event loop; :meth:`run` it once."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = monotonic) -> None:
        """Builds and binds everything. Raises ``SettingsError`` or ``OSError`` that says what is wrong."""
        if not settings.shares_index:
            raise SettingsError(
                "`prefixway index` writes into Redis: set PREFIXWAY_REDIS_URL, no PREFIXWAY_INDEX=memory"
            )
        check_redis_client(settings)
        from gateway.together import Together

        self._settings = settings
        self._clock = clock
        self._stop = asyncio.Event()
        self.pool = ReplicaPool()
        self.together = Together(
            settings, self.pool, Routed(), kind="indexer", clock=clock, wall_clock=lambda: datetime.now(UTC).timestamp()
        )
        self.pool.listen(self.together.events)
        self._fleet = FleetParts(settings, self.pool, clock)
        registry = CollectorRegistry()
        for collector in (self._fleet_metrics(), *self._fleet.collectors, *self.together.collectors):
            registry.register(collector)
        self.metrics = SideServer(ProbeApp(registry, self.is_ready), listen_socket(*settings.metrics_listen))
        self.admin = SideServer(self._admin_app(), listen_socket(*settings.admin_listen))
        self.parts: tuple[Part, ...] = (
            *self._fleet.parts,
            *self.together.parts,
            self.metrics,
            self.admin,
        )

    def is_ready(self) -> bool:
        """Some replica has been healthy since start. Whether Redis answers is told, and no reason to end this."""
        return self.pool.was_ready and not self._stop.is_set()

    def stop(self, *, linger: bool = True) -> None:
        """Let :meth:`run` hand over what it knows, and return. ``linger`` is nothing to it: it serves nobody."""
        self._stop.set()

    def hurry(self) -> None:
        """The same: a hand-over has a time limit of its own."""
        self.stop()

    async def run(self) -> None:
        """Index until :meth:`stop`."""
        settings = self._settings
        announce(
            settings,
            metrics=settings.metrics_listen._replace(port=self.metrics.port),
            admin=settings.admin_listen._replace(port=self.admin.port),
        )
        await self.together.start()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(keep_running(part.run, type(part).__name__)) for part in self.parts]
                await self._stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self.metrics.close()
            self.admin.close()
            await self.together.finish()
        _LOGGER.info("stopped")

    def _fleet_metrics(self) -> FleetMetrics:
        return FleetMetrics(
            self.pool,
            self.together.memory,
            lambda: self.together.events.feeds,
            Speeds(),
            stats=self.together.stats,
            budget=self.together.budget,
            unknown_settings=len(self._settings.unknown),
            log_lines_dropped=lambda: 0,
            retries_refused=lambda: 0,
            clock=self._clock,
        )

    def _admin_app(self) -> object:
        status = Status(
            self.pool,
            self.together.memory,
            self.together.stats,
            Speeds(),
            strategy=lambda: "",
            shared=self.together.status,
            orders=dict,
            tokenizers=dict,
            ready=self.is_ready,
            settings=self._settings.effective(),
            unknown_settings=self._settings.unknown,
            more={"discovery": self._fleet.status},
            clock=self._clock,
        )
        return admin_app(status.status, status.replicas, self._settings.admin_token)


@asynccontextmanager
async def running_index_service(settings: Settings) -> AsyncIterator[IndexService]:
    """An indexer that runs inside the block, and hands over at its end."""
    service = IndexService(settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(service.run(), name="index service")
        try:
            yield service
        finally:
            service.stop()
