"""FindingMetrics: what breaks prefix routing, as gauges that are there for as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class FindingMetrics(Collector):
    """``findings``: name and replica of each one in force."""

    def __init__(self, findings: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._findings = findings

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "prefixway_findings", "1: something breaks prefix routing; docs/findings.md", labels=("name", "replica")
        )
        for name, replica_id in sorted(self._findings()):
            family.add_metric((name, replica_id), 1)
        yield family
