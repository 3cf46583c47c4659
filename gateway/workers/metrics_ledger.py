"""MetricsLedger: the metrics of all workers as one, over the deaths and replacements of some.

Counters and histograms are sums over every worker that ever was, as last seen: a sum that fell would look like a
restart. Gauges are those of the workers that answer now. A series of a replica lives while a living worker has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.workers.gauge_rules import one_of

Series = tuple[str, tuple[tuple[str, str], ...]]  # the sample's name and its labels

_ADDITIVE = ("counter", "histogram", "summary")
_REPLICAS_ARE_IN = "prefixway_replica_up"


@dataclass
class _Family:
    type: str
    doc: str
    samples: dict[Series, float] = field(default_factory=dict)


_Page = dict[str, _Family]


class MetricsLedger:
    """A worker is whatever names it; it is :meth:`join`\\ ed once and :meth:`leave`\\ s once."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, _Page] = {}
        self._past: _Page = {}

    def join(self, worker: Hashable) -> None:
        """It has told nothing yet."""
        self._pages[worker] = {}

    def tell(self, worker: Hashable, text: str) -> None:
        """Its page of metrics, in Prometheus' text format. Raises ``ValueError`` for another; one that left is late."""
        if worker in self._pages:
            self._pages[worker] = _parse(text)

    def leave(self, worker: Hashable) -> None:
        """What it counted stays."""
        for name, family in self._pages.pop(worker, {}).items():
            if family.type in _ADDITIVE:
                past = self._past.setdefault(name, _Family(family.type, family.doc))
                for series, value in family.samples.items():
                    past.samples[series] = past.samples.get(series, 0.0) + value

    def families(self, answered: Collection[Hashable]) -> Iterable[Metric]:
        """Everything as one page. ``answered``: the workers whose gauges are true now."""
        self._forget_replicas()
        sources = [(None, self._past), *self._pages.items()]
        for name in dict.fromkeys(name for _, page in sources for name in page):
            told = [(worker, page[name]) for worker, page in sources if name in page]
            first = told[0][1]
            if first.type in _ADDITIVE:
                values = _sums([family for _, family in told])
            else:
                values = _gauges(name, [family for worker, family in told if worker in answered])
            if values:
                yield _metric(name, first, values)

    def _forget_replicas(self) -> None:
        """Drop what dead workers counted of replicas that no living worker has."""
        told = [page for page in self._pages.values() if page]
        if not told:
            return
        empty = _Family("", "")
        present = {_replica(series) for page in told for series in page.get(_REPLICAS_ARE_IN, empty).samples}
        for family in self._past.values():
            gone = [series for series in family.samples if _replica(series) not in {None, *present}]
            for series in gone:
                del family.samples[series]


def _parse(text: str) -> _Page:
    page = {}
    for metric in text_string_to_metric_families(text):
        if metric.name.endswith("_created"):
            continue  # when a series began says nothing of a sum
        family = page[metric.name] = _Family(metric.type, metric.documentation)
        for sample in metric.samples:
            family.samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return page


def _replica(series: Series) -> str | None:
    return dict(series[1]).get("replica")


def _sums(families: Iterable[_Family]) -> dict[Series, float]:
    sums: dict[Series, float] = defaultdict(float)
    for family in families:
        for series, value in family.samples.items():
            sums[series] += value
    return sums


def _gauges(name: str, families: Iterable[_Family]) -> dict[Series, float]:
    told: dict[Series, list[float]] = defaultdict(list)
    for family in families:
        for series, value in family.samples.items():
            told[series].append(value)
    return {series: one_of(name, values) for series, values in told.items()}


def _metric(name: str, family: _Family, values: dict[Series, float]) -> Metric:
    metric = Metric(name, family.doc, family.type)
    for (sample, labels), value in values.items():
        metric.add_sample(sample, dict(labels), value)
    return metric
