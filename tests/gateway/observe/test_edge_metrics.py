"""Connections as Prometheus sees them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from gateway.observe.edge_metrics import Connections, EdgeMetrics


def test_both_sides_are_told() -> None:
    """As they are when they are asked for."""
    now = Connections(0, 0, 0, 0)
    registry = CollectorRegistry()
    registry.register(EdgeMetrics(lambda: now))
    now = Connections(clients=3, busy=2, idle=1, stale=7)

    page = generate_latest(registry).decode()

    assert "prefixway_client_connections 3.0\n" in page
    assert 'prefixway_replica_connections{state="busy"} 2.0\n' in page
    assert 'prefixway_replica_connections{state="idle"} 1.0\n' in page
    assert "prefixway_stale_connections_total 7.0\n" in page
