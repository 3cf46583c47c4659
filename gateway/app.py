"""The composition root: builds every object once, hands each what it needs, starts and stops them.

Nothing here decides anything. Two gateways can live in one process.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

from prometheus_client import CollectorRegistry

import router_strategies
from gateway.edge.auth import ApiKeys
from gateway.edge.edge_app import EdgeApp
from gateway.edge.headers import Credentials
from gateway.edge.proxy import Proxy
from gateway.edge.server import EdgeServer
from gateway.edge.upstream_pool import UpstreamPool
from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.event_source import EventSource, checked_endpoint
from gateway.fleet.probes import Probes
from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import ServerSpec
from gateway.fleet.speeds import Speeds
from gateway.kv.event_following import EventFollowing
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.observe.access_log import AccessLog
from gateway.observe.admin_app import admin_app
from gateway.observe.fleet_metrics import FleetMetrics
from gateway.observe.line_writer import LineWriter
from gateway.observe.models_page import models_page
from gateway.observe.probe_app import ProbeApp
from gateway.observe.request_metrics import RequestMetrics
from gateway.observe.side_server import SideServer
from gateway.observe.status import Status
from gateway.prompt.encoders import EncoderRegistry
from gateway.prompt.tokenizer_hub import TokenizerHub
from gateway.router.encoder_loading import EncoderLoading
from gateway.router.exchange import Exchange
from gateway.router.router import Router
from gateway.settings import KvEvents, Settings, SettingsError
from gateway.supervisor import keep_running

_log = logging.getLogger(__name__)


class Part(Protocol):
    """What runs in the background, and again after a failure."""

    async def run(self) -> None: ...


class Gateway:
    """One gateway. Make it inside a running event loop; :meth:`run` it once."""

    def __init__(self, settings: Settings, *, linger_s: float = 1.0, clock: Callable[[], float] = monotonic) -> None:
        """Builds and binds everything. Raises ``SettingsError`` or ``OSError`` that says what is wrong.

        ``linger_s``: how long new arrivals are still served after :meth:`stop`, while load balancers look elsewhere.
        """
        self._settings = settings
        self._clock = clock
        self._linger_s = linger_s
        self._draining = False
        self._stop = asyncio.Event()
        self.stopped = False
        self._secret = settings.hash_secret.encode() or secrets.token_bytes(16)
        self._lines = LineWriter(sys.stdout) if settings.access_log else None
        self.pool, self.index = ReplicaPool(), MemoryIndex()
        self._routed, self._speeds = Routed(), Speeds()
        self.events = EventFollowing(
            self.pool, self.index, self._routed, secret=self._secret, wall_clock=lambda: _wall_clock().timestamp()
        )
        self._probes = self._make_probes()
        self._remote = RemoteTokenizer(self.pool, clock=clock, api_key=settings.replica_api_key or None)
        self._encoders = self._make_encoders()
        self._loading = EncoderLoading(self._encoders)
        self.router = self._make_router()
        self._upstream = UpstreamPool(
            connect_timeout_s=settings.connect_timeout_s, silence_timeout_s=settings.chunk_timeout_s
        )
        registry = CollectorRegistry()
        self._requests = RequestMetrics(registry, self.pool.knows_model)
        registry.register(self._fleet_metrics())
        self._observers = [self._requests.observe, *self._access_log()]
        self.edge = self._make_edge()
        self.metrics = SideServer(ProbeApp(registry, self.is_ready), **settings.metrics_listen._asdict())
        self.admin = self._make_admin()
        for listener in (self.events, self._loading, self._requests):
            self.pool.listen(listener)
        self._discovery = self._make_discovery()
        self.parts: tuple[Part, ...] = (
            self._discovery,
            self._probes,
            self.events,
            self._loading,
            self.metrics,
            self.admin,
        )

    def is_ready(self) -> bool:
        """Not draining, and some replica has been healthy since start. Never depends on events or a tokenizer."""
        return not self._draining and self.pool.was_ready

    @property
    def url(self) -> str:
        """Where the OpenAI API is, as a URL."""
        return f"http://{self._settings.listen._replace(port=self.edge.port)}"

    async def until_complete(self) -> None:
        """Wait until every configured replica is up and its tokenizer was looked for: for demos and tests."""

        def complete() -> bool:
            looked_for = self._loading.sources()
            return all(server.healthy and (server.namespace or "") in looked_for for server in self.pool.servers)

        while not complete():  # noqa: ASYNC110 - many things, none of which has an event
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        """Let :meth:`run` finish what runs, and return."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until :meth:`stop`, then finish what runs, within the drain time."""
        self._announce()
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(keep_running(part.run, type(part).__name__)) for part in self.parts]
                serving = group.create_task(self.edge.run(), name="edge")
                await self._stop.wait()
                await self._drain(serving)
                for task in background:
                    task.cancel()
        finally:
            self.stopped = True
            self._close()
            await self._remote.close()

    def _close(self) -> None:
        self._encoders.close()
        self._upstream.close()
        self.metrics.close()
        self.admin.close()
        if self._lines is not None:
            self._lines.close()

    async def _drain(self, serving: asyncio.Task[None]) -> None:
        """Not ready first; new arrivals are served for a moment more."""
        self._draining = True
        _log.info("draining: %d connections open", self.edge.connections)
        await asyncio.sleep(self._linger_s if self.edge.connections else 0)
        self.edge.drain()
        await serving
        _log.info("drained")

    def _announce(self) -> None:
        settings = self._settings
        _log.info("settings", extra={"fields": {"settings": settings.effective()}})
        for line in settings.unknown:
            _log.warning("%s", line)
        urls = {
            "api": self.url,
            "metrics": f"http://{settings.metrics_listen._replace(port=self.metrics.port)}",
            "admin": f"http://{settings.admin_listen._replace(port=self.admin.port)}",
        }
        _log.info("listening", extra={"fields": {"urls": urls}})

    # Parts

    def _make_discovery(self) -> StaticDiscovery:
        try:
            return StaticDiscovery(self._settings.replicas, self._settings.replicas_file, self.pool.reconcile)
        except ValueError as error:
            name = "PREFIXWAY_REPLICAS_FILE" if self._settings.replicas_file else "PREFIXWAY_REPLICAS"
            raise SettingsError(f"{name}: {error}") from error

    def _make_probes(self) -> Probes:
        settings = self._settings
        return Probes(
            self.pool,
            clock=self._clock,
            interval_s=settings.probe_interval_s,
            timeout_s=settings.probe_timeout_s,
            api_key=settings.replica_api_key or None,
            sources=None if settings.kv_events.mode == "off" else _fixed_source(settings.kv_events),
            ask_sources=settings.kv_events.mode == "auto",
        )

    def _make_encoders(self) -> EncoderRegistry:
        try:
            return EncoderRegistry(
                self._settings.tokenizer,
                hub=TokenizerHub(),
                remote=self._remote.tokenize,
                max_prompt_chars=self._settings.max_prompt_chars,
            )
        except ValueError as error:
            raise SettingsError(f"PREFIXWAY_TOKENIZER: {error}") from error

    def _make_router(self) -> Router:
        return Router(
            pool=self.pool,
            index=self.index,
            routed=self._routed,
            events=self.events,
            speeds=self._speeds,
            encoder=self._encoders.get,
            strategies=_strategies(self._settings),
            strategy=self._settings.strategy,
            secret=self._secret,
            clock=self._clock,
        )

    def _make_edge(self) -> EdgeServer:
        settings = self._settings
        proxy = Proxy(
            self.router,
            self._upstream,
            self._observe,
            clock=self._clock,
            credentials=Credentials.of(replica_api_key=settings.replica_api_key, api_keys=bool(settings.api_keys)),
            show_receipt=settings.shows_receipt,
            hold_head=settings.hold_head,
            max_body_bytes=int(settings.max_body_mb * 1_000_000),
            session_headers=settings.session_headers,
            strategy_header=settings.client_strategy,
        )
        app = EdgeApp(
            proxy,
            models=lambda: models_page(self.pool),
            ready=self.is_ready,
            api_keys=ApiKeys(settings.api_keys),
        )
        return EdgeServer(app, **settings.listen._asdict(), drain_timeout_s=settings.drain_s)

    def _observe(self, exchange: Exchange) -> None:
        for observe in self._observers:
            observe(exchange)

    def _access_log(self) -> list[Callable[[Exchange], None]]:
        return [AccessLog(self._lines.write, _wall_clock).observe] if self._lines else []

    def _fleet_metrics(self) -> FleetMetrics:
        return FleetMetrics(
            self.pool,
            self.index,
            lambda: self.events.feeds,
            self._speeds,
            unknown_settings=len(self._settings.unknown),
            log_lines_dropped=lambda: self._lines.dropped if self._lines else 0,
            clock=self._clock,
        )

    def _make_admin(self) -> SideServer:
        status = Status(
            self.pool,
            self.index,
            self.events.stats,
            self._speeds,
            strategy=lambda: self.router.strategy,
            tokenizers=self._loading.sources,
            ready=self.is_ready,
            settings=self._settings.effective(),
            unknown_settings=self._settings.unknown,
            clock=self._clock,
        )
        app = admin_app(status.status, status.replicas, self._settings.admin_token)
        return SideServer(app, **self._settings.admin_listen._asdict())


@asynccontextmanager
async def running_gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """A gateway that runs inside the block, and drains at its end."""
    gateway = Gateway(settings, linger_s=0)
    async with asyncio.TaskGroup() as group:
        group.create_task(gateway.run(), name="gateway")
        try:
            yield gateway
        finally:
            gateway.stop()


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _strategies(settings: Settings) -> dict[str, router_strategies.Strategy]:
    """The chosen one with its options; the others, which a request may ask for, with their defaults."""
    names = router_strategies.available() if settings.client_strategy else (settings.strategy,)
    return {
        name: router_strategies.load(name, settings.strategy_options if name == settings.strategy else None)
        for name in names
    }


def _fixed_source(events: KvEvents) -> Callable[[ServerSpec, int], EventSource | None]:
    """Where every replica publishes, by the setting. Raises ``SettingsError`` for an address that is none."""
    try:
        for endpoint in (events.events, events.replay):
            if endpoint is not None:
                checked_endpoint(endpoint)
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_KV_EVENTS: {error}") from error

    def find(spec: ServerSpec, rank: int) -> EventSource | None:
        if events.events is None:
            return None
        return spec._replace(events=events.events, replay=events.replay).event_source(rank)

    return find
