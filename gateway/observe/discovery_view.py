"""DiscoveryView: how well replicas are found, as metrics and as a part of the status page. Read when asked."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.fleet.discovery.discovery import Discovery
from gateway.fleet.discovery.polling import PollingDiscovery

_MOST_SHOWN = 20


class DiscoveryView(Collector):
    """A collector for prometheus_client; register it once. Where replicas are named by settings it has no series.

    ``how``: the setting that says where replicas are found.
    """

    def __init__(self, how: str, discovery: Discovery) -> None:
        self._how = how
        self._polling = discovery if isinstance(discovery, PollingDiscovery) else None

    def collect(self) -> Iterable[Metric]:
        if (polling := self._polling) is None:
            return
        yield GaugeMetricFamily(
            "prefixway_discovery_age_seconds", "Since replicas were last looked up, or first should be", polling.age_s
        )
        yield GaugeMetricFamily(
            "prefixway_discovery_entry_faults",
            "What is wrong with single entries of that list: they are left out, or used in part",
            len(polling.entry_faults),
        )
        failures = CounterMetricFamily("prefixway_discovery_failures", "Look-ups that failed")
        failures.add_metric((), polling.failures)
        yield failures

    def status(self) -> dict[str, object]:
        """For /status."""
        if (polling := self._polling) is None:
            return {"how": self._how}
        return {
            "how": self._how,
            "answered": polling.answered.is_set(),
            "age_s": round(polling.age_s, 1),
            "fault": polling.fault,
            "failures": polling.failures,
            "entry_faults": list(polling.entry_faults[:_MOST_SHOWN]),
        }
