"""MemberMetrics: the other processes, as this one sees them at the moment of a scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.shared.orders.order_book import OrderBook
from gateway.shared.processes.divergence import Divergence
from gateway.shared.processes.members import Members


class MemberMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(self, members: Members, divergence: Divergence, book: OrderBook) -> None:
        self._members = members
        self._divergence = divergence
        self._book = book

    def collect(self) -> Iterable[Metric]:
        members = self._members
        everybody = [members.mine, *(members.others.values() if members.known else ())]
        kinds = Counter(record.kind for record in everybody)
        yield _gauge("members", "Processes on the same Redis, this one included", "kind", kinds)
        yield _gauge(
            "members_divergent", "Processes that differ from this one, by what", "what", self._divergence.counts()
        )
        orders = Counter(order.kind for order in self._book.in_force())
        yield _gauge("orders", "Orders in force", "kind", {"strategy": 0, "drain": 0} | orders)
        yield CounterMetricFamily(
            "prefixway_member_records_unreadable", "Records of other processes not read", value=members.unreadable
        )


def _gauge(name: str, doc: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"prefixway_{name}", doc, labels=(label,))
    for of, value in values.items():
        family.add_metric((of,), value)
    return family
