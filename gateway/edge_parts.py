"""The parts of the public port, as the settings want them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from prometheus_client.registry import Collector

from gateway.edge.admission import Admission
from gateway.edge.auth import ApiKeys
from gateway.edge.cors import Cors
from gateway.edge.edge_app import EdgeApp
from gateway.edge.headers import Credentials
from gateway.edge.key_file import KeyFile
from gateway.edge.outbox import Outbox
from gateway.edge.proxy import Proxy, ProxyRules
from gateway.edge.retries import RetryBudget
from gateway.edge.routes import Routes
from gateway.edge.server import EdgeServer
from gateway.edge.tls import TlsFiles
from gateway.edge.upstream_pool import UpstreamPool
from gateway.errors import GatewayError
from gateway.fleet.origin import Origin
from gateway.observe.admission_metrics import AdmissionMetrics
from gateway.observe.edge_metrics import Connections, EdgeMetrics
from gateway.observe.key_metrics import KeyMetrics
from gateway.observe.tls_metrics import TlsMetrics
from gateway.router.exchange import Exchange
from gateway.router.prepared import Prepared
from gateway.router.router import Router
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from gateway.supervisor import Part


class EdgeParts:
    """What one gateway's public port is made of. ``parts`` are those that run by themselves."""

    def __init__(
        self,
        settings: Settings,
        router: Router,
        listening: socket.socket,
        *,
        shared: bool,
        observe: Callable[[Exchange], None],
        unreadable: Callable[[GatewayError], None],
        models: Callable[[], bytes],
        ready: Callable[[], bool],
        heard: Callable[[Origin], None],
        clock: Callable[[], float],
    ) -> None:
        """``shared``: other processes accept on the same socket. For the callables see :class:`EdgeApp`,
        :class:`Proxy` and :class:`UpstreamPool`. Raises ``SettingsError`` that says what is wrong.
        """
        self.admission = admission_of(settings, clock)
        self.budget = RetryBudget(settings.retry_budget)
        outbox = Outbox()
        self.upstream = upstream_of(settings, heard, outbox)
        self._keys = ApiKeys(settings.api_keys, required=settings.wants_keys, receipt=settings.shows_receipt)
        self._key_file = key_file_of(settings, self._keys)
        self._tls = tls_of(settings)
        self._proxy: Proxy[Prepared] = Proxy(
            router,
            self.upstream,
            observe,
            admission=self.admission,
            budget=self.budget,
            rules=rules_of(settings),
            clock=clock,
        )
        app = EdgeApp(
            self._proxy,
            routes=Routes(settings.allow_routes),
            models=models,
            ready=ready,
            api_keys=self._keys,
            cors=Cors(settings.cors_origins),
            max_body_bytes=int(settings.max_body_mb * 1_000_000),
            unreadable=unreadable,
        )
        self.server = self._make_server(app, settings, listening, outbox, shared=shared)

    def _make_server(
        self, app: EdgeApp[Prepared], settings: Settings, listening: socket.socket, outbox: Outbox, *, shared: bool
    ) -> EdgeServer:
        return EdgeServer(
            app,
            listening,
            shared=shared,
            tls=self._tls.context if self._tls else None,
            outbox=outbox,
            upload_timeout_s=settings.upload_timeout_s,
            send_timeout_s=settings.send_timeout_s,
            max_uploads_bytes=int(settings.max_uploads_mb * 1_000_000),
            drain_timeout_s=settings.drain_s,
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for part in (self._key_file, self._tls) if part is not None)

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """For Prometheus."""
        always = (
            AdmissionMetrics(self.admission.counts),
            EdgeMetrics(self._connections),
            KeyMetrics(lambda: len(self._keys.names), lambda: bool(self._key_file and self._key_file.fault)),
        )
        tls = self._tls
        return always if tls is None else (*always, TlsMetrics(lambda: tls.is_stale, lambda: tls.expires_s))

    def counts(self) -> dict[str, int]:
        """What it does at this moment: requests that are not answered yet, clients' connections, what they
        are uploading, and replicas' connections.
        """
        return {
            "under_way": self._proxy.under_way,
            "connections": self.server.connections,
            "upload_bytes": self.server.upload_bytes,
            "upstream_busy": self.upstream.busy,
            "upstream_idle": self.upstream.idle,
        }

    def _connections(self) -> Connections:
        upstream = self.upstream
        return Connections(self.server.connections, upstream.busy, upstream.idle, upstream.stale)

    def close(self) -> None:
        """Break off everything, at once."""
        self.server.abandon()
        self.upstream.close()


def upstream_of(settings: Settings, heard: Callable[[Origin], None], outbox: Outbox) -> UpstreamPool:
    return UpstreamPool(
        connect_timeout_s=settings.connect_timeout_s,
        first_byte_timeout_s=settings.first_byte_timeout_s,
        silence_timeout_s=settings.chunk_timeout_s,
        heard=heard,
        outbox=outbox,
    )


def admission_of(settings: Settings, clock: Callable[[], float]) -> Admission:
    return Admission(
        max_inflight=settings.max_inflight,
        max_inflight_tokens=settings.max_inflight_tokens,
        max_queue=settings.max_queue,
        max_queue_tokens=settings.max_queue_tokens,
        queue_timeout_s=settings.queue_timeout_s,
        clock=clock,
        call_later=asyncio.get_running_loop().call_later,
    )


def rules_of(settings: Settings) -> ProxyRules:
    return ProxyRules(
        credentials=Credentials.of(replica_api_key=settings.replica_api_key, api_keys=settings.wants_keys),
        show_receipt=settings.shows_receipt,
        hold_head=settings.hold_head,
        session_headers=settings.session_headers,
        client_strategy=settings.client_strategy,
        client_priority=settings.client_priority,
        ask_usage=settings.ask_usage,
        aliases=settings.model_aliases,
    )


def key_file_of(settings: Settings, keys: ApiKeys) -> KeyFile | None:
    if settings.api_keys_file is None:
        return None
    try:
        return KeyFile(settings.api_keys_file, keys)
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_API_KEYS_FILE: {error}") from error


def tls_of(settings: Settings) -> TlsFiles | None:
    if settings.tls_cert is None and settings.tls_key is None:
        return None
    if settings.tls_cert is None or settings.tls_key is None:
        raise SettingsError("PREFIXWAY_TLS_CERT and PREFIXWAY_TLS_KEY go together: set both")
    try:
        return TlsFiles(settings.tls_cert, settings.tls_key)
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_TLS_CERT and PREFIXWAY_TLS_KEY: {error}") from error
