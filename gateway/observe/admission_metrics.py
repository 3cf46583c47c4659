"""AdmissionMetrics: who is let in, who waits and who is turned away, at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_GAUGES = {
    "inflight": "Requests that have a place",
    "inflight_tokens": "Their prompt tokens",
    "waiting": "Requests that wait for a place",
    "waiting_tokens": "Their prompt tokens",
}
#: Every request has one of these outcomes, or waits.
_OUTCOMES = ("admitted", "refused", "expired", "left")


class AdmissionMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """``counts``: by name, as :meth:`gateway.edge.admission.Admission.counts` gives them."""
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        counts = self._counts()
        for name, doc in _GAUGES.items():
            yield GaugeMetricFamily(f"prefixway_admission_{name}", doc, value=counts[name])
        outcomes = CounterMetricFamily(
            "prefixway_admissions", "Requests by what became of their wish for a place", labels=("outcome",)
        )
        for outcome in _OUTCOMES:
            outcomes.add_metric((outcome,), counts[outcome])
        yield outcomes
