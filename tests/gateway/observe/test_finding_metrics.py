"""FindingMetrics: a series for each finding in force."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from gateway.observe.finding_metrics import FindingMetrics


def test_a_finding_is_a_series_for_as_long_as_it_is_in_force() -> None:
    findings = [("salt_dropped", "a"), ("coverage_low", "")]
    registry = CollectorRegistry()
    registry.register(FindingMetrics(lambda: findings))

    page = generate_latest(registry).decode()
    assert 'prefixway_findings{name="salt_dropped",replica="a"} 1.0' in page
    assert 'prefixway_findings{name="coverage_low",replica=""} 1.0' in page

    findings.clear()
    assert "prefixway_findings{" not in generate_latest(registry).decode()
