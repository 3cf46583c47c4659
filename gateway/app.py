"""The composition root: builds every object once, hands each what it needs, starts and stops them.

Nothing here decides anything. Two gateways can live in one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic

from prometheus_client import CollectorRegistry

import router_strategies
from gateway.asgi_server import ListenSockets, listen_sockets
from gateway.edge_parts import EdgeParts
from gateway.explaining import explain_routes
from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.fleet_parts import FleetParts
from gateway.kv.routed import Routed
from gateway.observe.admin_app import admin_app
from gateway.observe.announcement import announce
from gateway.observe.fleet_metrics import FleetMetrics
from gateway.observe.models_page import models_page
from gateway.observe.order_desk import OrderDesk
from gateway.observe.probe_app import ProbeApp
from gateway.observe.side_server import SideServer
from gateway.observe.status import Status
from gateway.observe.truth_view import TruthView
from gateway.observer_parts import ObserverParts
from gateway.prompt_parts import encoders_of
from gateway.proof_parts import ProofParts
from gateway.router.encoder_loading import EncoderLoading
from gateway.router.response_homes import ResponseHomes
from gateway.router.router import Router
from gateway.router.truth import Truth
from gateway.settings import Settings
from gateway.shared.link.keys import SCHEMA
from gateway.supervisor import Part, keep_running
from gateway.together_or_alone import fellowship
from router_strategies._cost import Rates

_log = logging.getLogger(__name__)

_PARTING_S = 1.0  # for who was just sending on a connection that was idle; docs/edge.md counts it


class Gateway:
    """One gateway. Make it inside a running event loop; :meth:`run` it once."""

    def __init__(
        self,
        settings: Settings,
        *,
        sockets: ListenSockets | None = None,
        linger_s: float | None = None,
        clock: Callable[[], float] = monotonic,
        schema: int = SCHEMA,
    ) -> None:
        """Builds and binds everything. Raises ``SettingsError`` or ``OSError`` that says what is wrong.

        ``sockets``: bound by somebody else, who also tells where they are, and when to :meth:`accept`.
        ``linger_s``: instead of the setting.
        ``schema``: that of the keys in Redis, for a test of an upgrade.
        """
        self._settings = settings
        self._clock = clock
        self._linger_s = settings.linger_s if linger_s is None else linger_s
        self._is_worker = sockets is not None
        self._draining = False
        self._retired = False
        self._leave = asyncio.Event()
        self._hurry = asyncio.Event()
        self._gate = asyncio.Event()
        self.stopped = False
        self.pool, self._speeds = ReplicaPool(stall_s=settings.stall_s), Speeds(Rates(**settings.rates))
        self._routed = Routed(default_capacity=settings.kv_capacity_tokens)
        self.fellowship = fellowship(settings, self.pool, self._routed, clock=clock, wall_clock=_unix_s, schema=schema)
        self.fleet = FleetParts(settings, self.pool, clock)
        self._remote = RemoteTokenizer(self.pool, clock=clock, api_key=settings.replica_api_key or None)
        self._encoders = encoders_of(settings, self._remote)
        self._loading = EncoderLoading(self._encoders)
        announced, l2 = self.fellowship.events.indexer.announced, self.fellowship.budget.l2
        self.truth = Truth(self.fellowship, announced, clock=clock, l2=l2)
        self._truth_view = TruthView(self.truth)
        self.router = self._make_router()
        self.fellowship.attach(self.router)
        self.proof = self._make_proof()
        self._registry = self._make_registry()
        self._observers = self._make_observers()
        self.router.watch(self._observers.onlooking.onlookers)
        self._sockets = sockets or listen_sockets(settings.listen, settings.metrics_listen, settings.admin_listen)
        self._edge = self._make_edge()
        self.edge = self._edge.server
        self.metrics = SideServer(ProbeApp(self._registry, self.is_ready), self._sockets.metrics)
        self.admin = self._make_admin()
        for listener in (self.fellowship.events, self._loading, self._observers.requests, self.truth):
            self.pool.listen(listener)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What runs by itself, beside the public port."""
        return (
            *self.fleet.parts,
            *self.fellowship.parts,
            self._loading,
            *self.proof.parts,
            self.metrics,
            self.admin,
            *self._edge.parts,
        )

    def is_ready(self) -> bool:
        """Not draining, and some replica has been healthy since start. Never depends on events or a tokenizer."""
        return not self._draining and self.pool.was_ready

    @property
    def url(self) -> str:
        """Where the OpenAI API is, as a URL."""
        scheme = "https" if self._settings.tls_cert else "http"
        return f"{scheme}://{self._settings.listen._replace(port=self.edge.port)}"

    async def until_complete(self) -> None:
        """Wait until every replica that is found is up and its tokenizer was looked for: for demos and tests."""
        await self.fleet.discovery.answered.wait()

        def complete() -> bool:
            looked_for = self._loading.sources()
            return all(server.healthy and (server.namespace or "") in looked_for for server in self.pool.servers)

        while not complete():  # noqa: ASYNC110 - many things, none of which has an event
            await asyncio.sleep(0.02)

    def stop(self, *, linger: bool = True) -> None:
        """Let :meth:`run` finish what runs, and return. Nobody else serves: it says that it is not ready any more.

        ``linger``: serve on for the linger time first, for load balancers; a person who stops it does not wait for any.
        """
        if not linger:
            self._linger_s = 0.0
        self._draining = True
        self._leave.set()
        if self._retired:
            self.edge.drain()

    def hurry(self) -> None:
        """Stop, and wait for nothing: what runs is broken off."""
        self._hurry.set()
        self.stop()
        self.edge.abandon()

    def retire(self) -> None:
        """The same, in favour of others who accept on the same socket: clients are given time to go over to them."""
        self._retired = True
        self._leave.set()

    @property
    def connections(self) -> int:
        """Client connections that are open."""
        return self.edge.connections

    @property
    def accepts(self) -> bool:
        """Whether it takes new connections."""
        return self._gate.is_set() and not self._leave.is_set()

    def accept(self) -> None:
        """Take connections from now on: for one of several that share a socket, not before it is ready."""
        self._gate.set()

    async def run(self, before_end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Serve until :meth:`stop`, then finish what runs, within the drain time.

        ``before_end`` is awaited when that is done and the side ports still answer.
        """
        await self.fellowship.start()
        if not self._is_worker:
            self._announce()
            self.accept()
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(keep_running(part.run, type(part).__name__)) for part in self.parts]
                serving = group.create_task(self._serve(), name="edge")
                await self._leave.wait()
                await self._drain(serving)
                if before_end is not None:
                    await before_end()
                for task in background:
                    task.cancel()
        finally:
            self.stopped = True
            self._close()
            await self.fellowship.finish()
            await self._remote.close()
            await self.proof.close()

    async def _serve(self) -> None:
        await self._gate.wait()
        if not self._leave.is_set():
            await self.edge.run()

    def _close(self) -> None:
        self._edge.close()
        self._encoders.close()
        self.metrics.close()
        self.admin.close()
        self._observers.close()

    async def _drain(self, serving: asyncio.Task[None]) -> None:
        """New arrivals are served for a moment more, by others or here; then no more."""
        _log.info("%s", self._plan())
        self.edge.part()
        if not self._retired:
            await self._linger()
        await self.edge.hand_over(self._settings.drain_s if self._retired else min(self._linger_s, _PARTING_S))
        if not self.edge.draining:  # a second time would break off what runs
            self.edge.drain()
        self.accept()
        await serving
        _log.info("drained")

    def _plan(self) -> str:
        """What is done from now on, for who waits for the end."""
        serving = f"serving on for {self._linger_s:g} s, then " if self._linger_s and not self._retired else ""
        return (
            f"draining: {serving}up to {self._settings.drain_s:g} s for what runs; {self.connections} connections open;"
            " asked again to stop, it breaks them off"
        )

    async def _linger(self) -> None:
        """A load balancer that has not noticed yet still sends requests here, over new connections too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger_s):
                await self._hurry.wait()

    def _announce(self) -> None:
        settings = self._settings
        announce(
            settings,
            api=settings.listen._replace(port=self.edge.port),
            metrics=settings.metrics_listen._replace(port=self.metrics.port),
            admin=settings.admin_listen._replace(port=self.admin.port),
        )

    # Parts

    def _make_router(self) -> Router:
        return Router(
            pool=self.pool,
            index=self.fellowship.index,
            routed=self._routed,
            events=self.fellowship,
            speeds=self._speeds,
            encoder=self._encoders.get,
            strategies=_strategies(self._settings),
            strategy=self._settings.strategy,
            secret=lambda: self.fellowship.secret.value,
            clock=self._clock,
            always_read=self._settings.read_prompts == "always",
            homes=ResponseHomes(self.fellowship.responses, clock=self._clock),
            salted=self.fellowship.events.salted,
            truth=self.truth,
            l2=self.fellowship.budget.l2,
        )

    def _make_proof(self) -> ProofParts:
        return ProofParts(
            self._settings,
            self.pool,
            self.fellowship,
            encoder=self._encoders.get,
            tokenizers=self._loading.sources,
            evidence=self.truth.evidence,
            more=self.fleet.symptoms,
            clock=self._clock,
        )

    def _make_observers(self) -> ObserverParts:
        return ObserverParts(
            self._settings,
            self.pool,
            self._registry,
            shared=self._is_worker,
            secret=lambda: self.fellowship.secret.value,
            wall_clock=_unix_s,
        )

    def _make_edge(self) -> EdgeParts:
        edge = EdgeParts(
            self._settings,
            self.router,
            self._sockets.public,
            shared=self._is_worker,
            observe=self._observers.observe,
            unreadable=self._observers.requests.unreadable,
            models=lambda: models_page(self.pool, self._settings.model_aliases),
            ready=self.is_ready,
            heard=lambda origin: self.pool.heard(origin, self._clock()),
            clock=self._clock,
        )
        for collector in edge.collectors:
            self._registry.register(collector)
        return edge

    def _make_registry(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        of_fleet = (self._fleet_metrics(), self._truth_view, *self.fleet.collectors)
        for collector in (*of_fleet, *self.fellowship.collectors, *self.proof.collectors):
            registry.register(collector)
        return registry

    def _fleet_metrics(self) -> FleetMetrics:
        return FleetMetrics(
            self.pool,
            self.fellowship.memory,
            lambda: self.fellowship.events.feeds,
            self._speeds,
            stats=self.fellowship.stats,
            budget=self.fellowship.budget,
            unknown_settings=len(self._settings.unknown),
            log_lines_dropped=lambda: self._observers.lines_dropped,
            retries_refused=lambda: self._edge.budget.refused,
            clock=self._clock,
        )

    def _make_admin(self) -> SideServer:
        desk = OrderDesk(
            self.fellowship.orders,
            servers=lambda: [server.id for server in self.pool.servers],
            strategy=lambda: self.router.strategy,
            configured=self._settings.strategy,
            wall_clock=_unix_s,
        )
        shadows = self._observers.onlooking.status
        pages = {"discovery": self.fleet.status, "findings": self.proof.findings, "shadows": shadows}
        status = Status(
            self.pool,
            self.fellowship.memory,
            self.fellowship.stats,
            self._speeds,
            strategy=lambda: self.router.strategy,
            shared=self.fellowship.status,
            orders=desk.orders,
            tokenizers=self._loading.sources,
            ready=self.is_ready,
            settings=self._settings.effective(),
            unknown_settings=self._settings.unknown,
            more={**pages, "edge": self._edge.counts, "admission": self._edge.admission.counts},
            truth=self._truth_view.status,
            clock=self._clock,
        )
        explain = explain_routes(self._settings, self.router, self.fleet.discovery)
        app = admin_app(status.status, status.replicas, self._settings.admin_token, desk, [explain])
        return SideServer(app, self._sockets.admin)


@contextlib.asynccontextmanager
async def running_gateway(
    settings: Settings, *, linger_s: float = 0.0, clock: Callable[[], float] = monotonic, schema: int = SCHEMA
) -> AsyncIterator[Gateway]:
    """A gateway that runs inside the block, and drains at its end.

    ``linger_s``: none where nobody sends any more then; else a request that was just sent may be broken off.
    """
    gateway = Gateway(settings, linger_s=linger_s, clock=clock, schema=schema)
    async with asyncio.TaskGroup() as group:
        group.create_task(gateway.run(), name="gateway")
        try:
            yield gateway
        finally:
            gateway.stop()


def _unix_s() -> float:
    return datetime.now(UTC).timestamp()


def _strategies(settings: Settings) -> dict[str, router_strategies.Strategy]:
    """The chosen one with its options; the others, which a request may ask for, with their defaults."""
    names = router_strategies.available() if settings.client_strategy else (settings.strategy,)
    return {
        name: router_strategies.load(name, settings.strategy_options if name == settings.strategy else None)
        for name in names
    }
