"""What finds replicas and watches them, as the settings say: the same for a gateway and for an indexer."""

from __future__ import annotations

from collections.abc import Callable

from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.event_source import EventSource, checked_endpoint
from gateway.fleet.probes import Probes
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import ServerSpec
from gateway.setting_field import SettingsError
from gateway.setting_values import KvEvents
from gateway.settings import Settings


def discovery_of(settings: Settings, pool: ReplicaPool) -> StaticDiscovery:
    """Raises ``SettingsError``."""
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
