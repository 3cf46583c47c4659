"""How well replicas are found, as metrics and on the status page."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.fleet.discovery.polling import Found, LookupFailed, PollingDiscovery
from gateway.fleet.discovery.static import StaticDiscovery
from gateway.observe.discovery_view import DiscoveryView


class _Directory:
    def __init__(self) -> None:
        self.fault = ""

    async def look_up(self) -> Found:
        if self.fault:
            raise LookupFailed(self.fault)
        return Found((), faults=("pod a: odd",))

    async def close(self) -> None: ...


async def test_age_failures_and_faults_of_entries() -> None:
    now, directory = [100.0], _Directory()
    discovery = PollingDiscovery(directory, lambda _specs, _held: None, clock=lambda: now[0], interval_s=3)
    view, registry = DiscoveryView("kubernetes:app=vllm", discovery), CollectorRegistry()
    registry.register(view)
    now[0] = 102.0
    before = registry.get_sample_value("prefixway_discovery_age_seconds")
    await discovery.look()
    now[0], directory.fault = 107.0, "403"
    await discovery.look()

    assert before == 2
    assert registry.get_sample_value("prefixway_discovery_age_seconds") == 5
    assert registry.get_sample_value("prefixway_discovery_failures_total") == 1
    assert registry.get_sample_value("prefixway_discovery_entry_faults") == 1
    assert view.status() == {
        "how": "kubernetes:app=vllm",
        "answered": True,
        "age_s": 5.0,
        "fault": "403",
        "failures": 1,
        "entry_faults": ["pod a: odd"],
    }


def test_replicas_that_are_named_by_settings_have_no_series() -> None:
    view = DiscoveryView("static", StaticDiscovery("", None, lambda _: None))

    assert (list(view.collect()), view.status()) == ([], {"how": "static"})
