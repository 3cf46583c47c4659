"""What finds replicas and watches them, as the settings say: the same for a gateway and for an indexer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.registry import Collector

from gateway.check.symptoms import Symptom, of_discovery
from gateway.fleet.discovery.discovery import Discovery
from gateway.fleet.discovery.dns import DnsNames
from gateway.fleet.discovery.kubernetes import KubernetesPods
from gateway.fleet.discovery.kubernetes_api import KubernetesApi
from gateway.fleet.discovery.polling import Directory, PollingDiscovery
from gateway.fleet.discovery.service_account import ServiceAccount
from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.event_source import EventSource, checked_endpoint
from gateway.fleet.probes import Probes
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import ServerSpec
from gateway.observe.discovery_view import DiscoveryView
from gateway.setting_field import SettingsError
from gateway.setting_values import KvEvents
from gateway.settings import Settings
from gateway.supervisor import Part


class FleetParts:
    """``discovery`` and ``probes``, and what is to be seen of how replicas are found: ``collectors``, ``status``."""

    def __init__(self, settings: Settings, pool: ReplicaPool, clock: Callable[[], float]) -> None:
        """Raises ``SettingsError``."""
        self.probes = probes_of(settings, pool, clock)
        self.discovery = discovery_of(settings, pool, clock)
        self.parts: tuple[Part, ...] = (self.discovery, self.probes)
        view = DiscoveryView(str(settings.discovery), self.discovery)
        self.collectors: tuple[Collector, ...] = (view,)
        self.status = view.status

    def symptoms(self) -> Iterable[Symptom]:
        """Whether replicas are found no more."""
        if isinstance(self.discovery, PollingDiscovery):
            yield from of_discovery(self.discovery.age_s, self.discovery.interval_s, self.discovery.fault)


def discovery_of(settings: Settings, pool: ReplicaPool, clock: Callable[[], float]) -> Discovery:
    """As PREFIXWAY_DISCOVERY says; nobody is asked before it runs. Raises ``SettingsError``."""
    if settings.discovery.kind == "static":
        return _static(settings, pool)
    directory = _pods(settings) if settings.discovery.kind == "kubernetes" else _names(settings)
    return PollingDiscovery(directory, pool.reconcile, clock=clock, interval_s=settings.discovery_interval_s)


def _pods(settings: Settings) -> Directory:
    account = ServiceAccount(settings.kubernetes_account)
    try:
        api = KubernetesApi(settings.kubernetes_api, account)
    except ValueError as error:
        raise SettingsError(f"PREFIXWAY_KUBERNETES_API: {error}") from error
    return KubernetesPods(api, account, settings.discovery)


def _names(settings: Settings) -> Directory:
    finder = settings.discovery
    return DnsNames(finder.name, int(finder.port) if finder.port else None)


def _static(settings: Settings, pool: ReplicaPool) -> Discovery:
    try:
        return StaticDiscovery(settings.replicas, settings.replicas_file, pool.reconcile)
    except ValueError as error:
        name = "PREFIXWAY_REPLICAS_FILE" if settings.replicas_file else "PREFIXWAY_REPLICAS"
        raise SettingsError(f"{name}: {error}") from error


def probes_of(settings: Settings, pool: ReplicaPool, clock: Callable[[], float]) -> Probes:
    """Raises ``SettingsError``."""
    return Probes(
        pool,
        clock=clock,
        interval_s=settings.probe_interval_s,
        timeout_s=settings.probe_timeout_s,
        api_key=settings.replica_api_key or None,
        sources=None if settings.kv_events.mode == "off" else _fixed_source(settings.kv_events),
        ask_sources=settings.kv_events.mode == "auto",
    )


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
