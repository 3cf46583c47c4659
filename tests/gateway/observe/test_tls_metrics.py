"""The TLS certificate as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.observe.tls_metrics import TlsMetrics


def test_a_scrape() -> None:
    """Whether it is old, and until when it is good."""
    registry = CollectorRegistry()
    registry.register(TlsMetrics(lambda: True, lambda: 1.9e9))

    assert registry.get_sample_value("prefixway_tls_stale") == 1
    assert registry.get_sample_value("prefixway_tls_expires_seconds") == 1.9e9


def test_what_is_not_known_is_not_told() -> None:
    """Zero would look like a certificate that expired long ago."""
    registry = CollectorRegistry()
    registry.register(TlsMetrics(lambda: False, lambda: None))

    assert registry.get_sample_value("prefixway_tls_stale") == 0
    assert registry.get_sample_value("prefixway_tls_expires_seconds") is None
