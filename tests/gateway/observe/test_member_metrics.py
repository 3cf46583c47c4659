"""The fleet of processes as Prometheus sees it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.observe.member_metrics import MemberMetrics
from gateway.shared.link.keys import Keys
from gateway.shared.orders.order import DRAIN, Order
from gateway.shared.orders.order_book import OrderBook
from gateway.shared.processes.divergence import Divergence
from gateway.shared.processes.member_record import MemberRecord, digest
from gateway.shared.processes.members import Members
from tests.gateway.examples import Clock


def test_a_scrape() -> None:
    """Who is there, who differs, what is ordered; without news of the others only what is known of ourselves."""
    clock = Clock()
    members = Members(Keys(), lambda: MemberRecord("me", strategy="kv_aware", secret_id="a"), clock=clock)
    others = [MemberRecord("b", strategy="session", secret_id="a"), MemberRecord("c", kind="indexer", secret_id="b")]
    rows = [word for r in others for word in (r.process_id.encode(), digest(r.encode()).encode(), r.encode())]
    members.answered([0, *rows, b"d", b"1", b"rubbish"])
    registry = CollectorRegistry()
    registry.register(
        MemberMetrics(members, Divergence(members, clock=clock), OrderBook([Order(DRAIN, "s", version=1)]))
    )

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"prefixway_{name}", labels)

    assert [value("members", kind=kind) for kind in ("gateway", "indexer")] == [2, 1]
    assert [value("members_divergent", what=what) for what in ("strategy", "orders", "secret", "version")] == [
        1,
        0,
        1,
        0,
    ]
    assert [value("orders", kind=kind) for kind in ("strategy", "drain")] == [0, 1]
    assert value("member_records_unreadable_total") == 1

    clock.now += 10
    assert [value("members", kind=kind) for kind in ("gateway", "indexer")] == [1, None]
    assert value("members_divergent", what="secret") == 0
