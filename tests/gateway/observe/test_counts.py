"""Plain numbers show what prometheus_client's own metrics would."""

from __future__ import annotations

from collections.abc import Iterable

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.observe.counts import Counts, Histogram

BOUNDS = (0.005, 0.25, 1.0, 30.0)
VALUES = st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1e6))
LABELS = st.tuples(st.sampled_from(["tiny", 'a"b\\', "größe\n"]), st.sampled_from(["x", ""]))


class Shown(Collector):
    """One of ours, on a page."""

    def __init__(self, of: Counts | Histogram) -> None:
        self._of = of

    def collect(self) -> Iterable[Metric]:
        yield self._of.family()

    def page(self) -> str:
        return generate_latest(_registry(self)).decode()


def _registry(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


def _theirs(registry: CollectorRegistry) -> str:
    lines = generate_latest(registry).decode().splitlines(keepends=True)
    return "".join(line for line in lines if "_created" not in line)


@given(st.lists(st.tuples(LABELS, VALUES)))
def test_a_histogram_shows_the_same(added: list[tuple[tuple[str, str], float]]) -> None:
    """Every bucket, count and sum, for any values and labels; values at a bound belong below it."""
    ours, registry = Histogram("h_seconds", "How\nlong", BOUNDS, "model", "strategy"), CollectorRegistry()
    theirs = prometheus_client.Histogram(
        "h_seconds", "How\nlong", ("model", "strategy"), buckets=BOUNDS, registry=registry
    )
    for labels, value in added:
        ours.series(labels).add(value)
        theirs.labels(*labels).observe(value)

    assert Shown(ours).page() == _theirs(registry)


@given(st.lists(st.tuples(LABELS, st.one_of(st.integers(0, 10**6), VALUES))))
def test_a_counter_shows_the_same(added: list[tuple[tuple[str, str], float]]) -> None:
    """Every sum, for any values and labels."""
    ours, registry = Counts("c", "How often", "model", "strategy"), CollectorRegistry()
    theirs = prometheus_client.Counter("c", "How often", ("model", "strategy"), registry=registry)
    for labels, value in added:
        ours[labels] += value
        theirs.labels(*labels).inc(value)

    assert Shown(ours).page() == _theirs(registry)


def test_a_page_can_be_openmetrics() -> None:
    """The other format that scrapers ask for."""
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    histogram, counts = Histogram("h_seconds", "How long", BOUNDS, "model"), Counts("c", "How often", "model")
    histogram.series(("tiny",)).add(1.0)
    counts[("tiny",)] += 1

    assert b'h_seconds_bucket{le="+Inf",model="tiny"} 1.0' in encode(_registry(Shown(histogram)))
    assert b'c_total{model="tiny"} 1.0' in encode(_registry(Shown(counts)))


def test_a_series_can_be_shown_before_it_counts() -> None:
    """So that a rate sees its first step; one that has counted stays as it is."""
    counts = Counts("c", "How often", "model")
    counts[("b",)] += 2
    for model in ("a", "b"):
        counts.begin((model,))

    assert dict(counts) == {("a",): 0, ("b",): 2}


def test_forgetting_drops_one_label_value_only() -> None:
    """Whatever its other labels are, and nothing that has that value elsewhere."""
    counts = Counts("c", "How often", "strategy", "replica")
    for labels in (("x", "a"), ("y", "a"), ("x", "b"), ("a", "b")):
        counts[labels] += 1
    counts.forget("replica", "a")

    assert set(counts) == {("x", "b"), ("a", "b")}
