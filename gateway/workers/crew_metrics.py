"""CrewMetrics: the metrics port of a supervisor. Its pages are those of a gateway; /metrics is that of all workers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.observe.probe_app import ProbeApp
from gateway.workers.crew import Crew
from gateway.workers.metrics_ledger import MetricsLedger
from gateway.workers.worker_pages import Question, WorkerPages
from gateway.workers.worker_process import WorkerProcess

_PAGE = Question("/metrics", port="metrics")


class WorkerCounters:
    """Keeps what workers count. It listens to the crew, so that what one counted is read before it leaves."""

    def __init__(self, pages: WorkerPages) -> None:
        self._pages = pages
        self._ledger = MetricsLedger()
        self._asking = asyncio.Lock()  # two scrapes at once: the older answer must not come last

    async def ask(self, workers: Iterable[WorkerProcess]) -> frozenset[WorkerProcess]:
        """Read every worker's page; answers with those that gave it in time."""
        async with self._asking:
            answers = await self._pages.ask_all(workers, _PAGE)
            told = {worker: page for worker, page in answers.items() if page is not None and page.is_success}
            for worker, page in told.items():
                self._ledger.tell(worker, page.text)
            return frozenset(told)

    def families(self, answered: Collection[WorkerProcess]) -> Iterable[Metric]:
        """Everything read, as one. Gauges are those of the workers that ``answered``."""
        return self._ledger.families(answered)

    # CrewListener

    def joined(self, worker: WorkerProcess) -> None:
        self._ledger.join(worker)

    async def drained(self, worker: WorkerProcess) -> None:
        await self.ask([worker])

    def left(self, worker: WorkerProcess) -> None:
        self._ledger.leave(worker)


class CrewMetrics(Collector):
    """An ASGI app."""

    def __init__(self, crew: Crew, counters: WorkerCounters) -> None:
        self._crew = crew
        self._counters = counters
        self._answered: frozenset[WorkerProcess] = frozenset()
        registry = CollectorRegistry()
        registry.register(self)
        self._app = ProbeApp(registry, lambda: crew.is_ready)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/metrics":
            self._answered = await self._counters.ask(self._crew.workers)
        await self._app(scope, receive, send)

    def collect(self) -> Iterable[Metric]:
        yield from self._own()
        yield from self._counters.families(self._answered)

    def _own(self) -> Iterable[Metric]:
        states = GaugeMetricFamily("prefixway_workers", "Worker processes by state", labels=("state",))
        for state, count in self._crew.states().items():
            states.add_metric((state,), count)
        yield states
        tally = self._crew.tally
        yield GaugeMetricFamily(
            "prefixway_workers_answered", "Workers whose metrics are in this page", len(self._answered)
        )
        yield CounterMetricFamily("prefixway_worker_deaths", "Workers that ended unasked", tally.deaths)
        yield CounterMetricFamily("prefixway_worker_replacements", "Workers replaced as planned", tally.replacements)
        yield CounterMetricFamily(
            "prefixway_worker_connections_lost", "Open connections of workers that died", tally.connections_lost
        )
