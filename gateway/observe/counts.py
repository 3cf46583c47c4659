"""Counts: numbers that cost next to nothing to add to, and become metrics at a scrape.

prometheus_client's own take a lock for each addition and walk a histogram's buckets in Python, some 15 us a request.
Here one thread, the event loop's, both adds and is scraped, so plain numbers do: nothing in this file is safe for more.

There are no ``_created`` series: they would be one more for each, and nothing that adds up or rates reads them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]  # label values, in the order of their names


class Counts(defaultdict[Labels, float]):
    """A counter, as a dictionary from label values to numbers: ``requests["chat", "ok"] += 1``."""

    def __init__(self, name: str, doc: str, *labels: str) -> None:
        super().__init__(float)
        self._name = name
        self._doc = doc
        self._labels = labels

    def begin(self, labels: Labels) -> None:
        """Show a series from now on, though it is 0."""
        self.setdefault(labels, 0.0)

    def forget(self, label: str, value: str) -> None:
        """Drop every series in which ``label`` is ``value``."""
        place = self._labels.index(label)
        for labels in [labels for labels in self if labels[place] == value]:
            del self[labels]

    def family(self) -> CounterMetricFamily:
        """As it is now."""
        family = CounterMetricFamily(self._name, self._doc, labels=self._labels)
        for labels, value in self.items():
            family.add_metric(labels, value)
        return family


class Spread:
    """One series of a histogram. ``bounds`` are the buckets' upper ends, ascending; the last bucket has none."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1  # a value at a bound is below it: `le`
        self._sum += value

    @property
    def sum(self) -> float:
        return self._sum

    def buckets(self) -> list[tuple[str, float]]:
        """Each bound as text, with how many values were not above it."""
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(self._counts)))


class Histogram:
    """A histogram: a :class:`Spread` for each combination of label values."""

    def __init__(self, name: str, doc: str, bounds: Sequence[float], *labels: str) -> None:
        self._name = name
        self._doc = doc
        self._bounds = bounds
        self._labels = labels
        self._series: dict[Labels, Spread] = {}

    def series(self, labels: Labels) -> Spread:
        """The one of these label values; keep it, since looking it up costs more than adding to it."""
        if (spread := self._series.get(labels)) is None:
            spread = self._series[labels] = Spread(self._bounds)
        return spread

    def family(self) -> HistogramMetricFamily:
        """As it is now."""
        family = HistogramMetricFamily(self._name, self._doc, labels=self._labels)
        for labels, spread in self._series.items():
            family.add_metric(labels, spread.buckets(), spread.sum)
        return family
