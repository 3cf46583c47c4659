"""The metrics port's pages."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter

from gateway.observe.probe_app import ProbeApp
from tests.gateway.observe.asking import ask


@pytest.mark.parametrize(
    ("path", "ready", "status"),
    [
        ("/livez", False, 200),
        ("/readyz", False, 503),
        ("/readyz", True, 200),
        ("/health", True, 200),
        ("/metrics", False, 200),
        ("/status", True, 404),
        ("/", True, 404),
    ],
)
async def test_pages(path: str, ready: bool, status: int) -> None:
    """Alive always, ready when it is, and nothing else."""
    assert (await ask(ProbeApp(CollectorRegistry(), lambda: ready), path)).status == status


async def test_metrics_in_the_format_asked_for() -> None:
    """Prometheus' text, or OpenMetrics where it is accepted."""
    registry = CollectorRegistry()
    Counter("prefixway_x", "x", registry=registry).inc()
    app = ProbeApp(registry, lambda: True)
    text = await ask(app, "/metrics")
    openmetrics = await ask(app, "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})

    assert "prefixway_x_total 1.0" in text.body
    assert text.headers["content-type"].startswith("text/plain")
    assert openmetrics.body.endswith("# EOF\n")


async def test_read_only() -> None:
    """POST is refused, HEAD has no body."""
    app = ProbeApp(CollectorRegistry(), lambda: True)

    assert (await ask(app, "/metrics", "POST")).status == 405
    assert (await ask(app, "/livez", "HEAD")).body == ""
