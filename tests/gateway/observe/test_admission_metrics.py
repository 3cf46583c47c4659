"""What admission counts, as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.edge.admission import Admission
from gateway.observe.admission_metrics import AdmissionMetrics
from tests.gateway.examples import Clock


def test_a_scrape() -> None:
    """Gauges of now, and every request's outcome."""
    admission = Admission(
        max_inflight=1,
        max_inflight_tokens=None,
        max_queue=1,
        max_queue_tokens=None,
        queue_timeout_s=30,
        clock=Clock(),
        call_later=lambda delay_s, callback: None,
    )
    registry = CollectorRegistry()
    registry.register(AdmissionMetrics(admission.counts))
    admission.enter(7, 0, lambda ticket: None, lambda error: None)
    admission.enter(8, 0, lambda ticket: None, lambda error: None).release()
    admission.enter(9, 0, lambda ticket: None, lambda error: None)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"prefixway_{name}", labels)

    names = ("inflight", "inflight_tokens", "waiting", "waiting_tokens")
    assert [value(f"admission_{name}") for name in names] == [1, 7, 1, 9]
    outcomes = ("admitted", "refused", "expired", "left")
    assert [value("admissions_total", outcome=outcome) for outcome in outcomes] == [1, 0, 0, 1]
