"""EdgeMetrics: the connections of both sides, at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Connections(NamedTuple):
    """``stale``: since the start; the rest is of now."""

    clients: int
    busy: int  # to replicas: an answer is awaited
    idle: int
    stale: int  # to replicas: kept, and closed by them before a request got there


class EdgeMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(self, connections: Callable[[], Connections]) -> None:
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        now = self._connections()
        yield GaugeMetricFamily("prefixway_client_connections", "Connections of clients", value=now.clients)
        upstream = GaugeMetricFamily(
            "prefixway_replica_connections",
            "Connections to replicas, by whether an answer is awaited",
            labels=["state"],
        )
        upstream.add_metric(["busy"], now.busy)
        upstream.add_metric(["idle"], now.idle)
        yield upstream
        yield CounterMetricFamily(
            "prefixway_stale_connections",
            "Kept connections that a replica had closed when a request was sent on them: it went out on a new one",
            value=now.stale,
        )
