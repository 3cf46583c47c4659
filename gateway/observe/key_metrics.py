"""KeyMetrics: the API keys that are in force, at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class KeyMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(self, count: Callable[[], int], stale: Callable[[], bool]) -> None:
        """``stale``: whether their file is wrong now, and the keys are those from before."""
        self._count = count
        self._stale = stale

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("prefixway_api_keys", "API keys in force", value=self._count())
        yield GaugeMetricFamily(
            "prefixway_api_keys_stale",
            "1: their file is wrong, and those from before are in force",
            value=self._stale(),
        )
