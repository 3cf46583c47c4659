"""The API keys as Prometheus sees them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.observe.key_metrics import KeyMetrics


def test_a_scrape() -> None:
    """How many, and whether they are old."""
    registry = CollectorRegistry()
    registry.register(KeyMetrics(lambda: 3, lambda: True))

    assert registry.get_sample_value("prefixway_api_keys") == 3
    assert registry.get_sample_value("prefixway_api_keys_stale") == 1
