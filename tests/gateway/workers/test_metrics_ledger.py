"""Sums survive deaths; gauges and replicas do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.workers.metrics_ledger import MetricsLedger


class Worker:
    """What a worker counts, as its page tells it."""

    def __init__(self, *replicas: str) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("prefixway_requests", "Requests", ("status",), registry=self._registry)
        self.decisions = Counter("prefixway_decisions", "Choices", ("replica",), registry=self._registry)
        self.seconds = Histogram("prefixway_seconds", "How long", buckets=(1.0, 2.0), registry=self._registry)
        self.up = Gauge("prefixway_replica_up", "Up", ("replica",), registry=self._registry)
        self.inflight = Gauge("prefixway_replica_inflight", "In flight", ("replica",), registry=self._registry)
        for replica in replicas:
            self.up.labels(replica).set(1)
            self.inflight.labels(replica).set(2)

    def page(self) -> str:
        return generate_latest(self._registry).decode()


def samples(ledger: MetricsLedger, *answered: object) -> dict[str, float]:
    """By name and labels, as in ``name{status=2xx}``. None is there twice."""
    told = [sample for family in ledger.families(set(answered)) for sample in family.samples]
    named = {
        sample.name + (f"{{{','.join(map('='.join, sorted(sample.labels.items())))}}}" if sample.labels else ""): (
            sample.value
        )
        for sample in told
    }
    assert len(named) == len(told)
    return named


def test_counters_and_histograms_are_sums() -> None:
    """Of every worker, with every bucket."""
    ledger, one, two = MetricsLedger(), Worker(), Worker()
    one.requests.labels("2xx").inc(3)
    two.requests.labels("2xx").inc(4)
    two.requests.labels("5xx").inc(1)
    one.seconds.observe(0.5)
    two.seconds.observe(1.5)
    for name, worker in (("one", one), ("two", two)):
        ledger.join(name)
        ledger.tell(name, worker.page())
    told = samples(ledger, "one", "two")

    assert told["prefixway_requests_total{status=2xx}"] == 7
    assert told["prefixway_requests_total{status=5xx}"] == 1
    assert [told[f"prefixway_seconds_bucket{{le={bound}}}"] for bound in ("1.0", "2.0", "+Inf")] == [1, 2, 2]
    assert (told["prefixway_seconds_sum"], told["prefixway_seconds_count"]) == (2.0, 2)
    assert not [name for name in told if "created" in name]


def test_a_death_and_a_successor_never_make_a_sum_fall() -> None:
    """The dead one's counts stay as last seen; the next one begins at nought."""
    ledger, one, two = MetricsLedger(), Worker(), Worker()
    one.requests.labels("2xx").inc(5)
    ledger.join("one")
    ledger.tell("one", one.page())
    ledger.leave("one")
    assert samples(ledger)["prefixway_requests_total{status=2xx}"] == 5
    ledger.join("two")
    two.requests.labels("2xx").inc(2)
    ledger.tell("two", two.page())

    assert samples(ledger, "two")["prefixway_requests_total{status=2xx}"] == 7
    ledger.tell("one", one.page())  # an answer that was late
    assert samples(ledger, "two")["prefixway_requests_total{status=2xx}"] == 7


def test_one_that_does_not_answer_counts_as_last_seen_and_shows_no_gauge() -> None:
    """Its counters cannot have fallen; what it has in flight is not known."""
    ledger, one, two = MetricsLedger(), Worker("a"), Worker("a")
    for name, worker in (("one", one), ("two", two)):
        worker.requests.labels("2xx").inc()
        ledger.join(name)
        ledger.tell(name, worker.page())

    assert samples(ledger, "one", "two")["prefixway_replica_inflight{replica=a}"] == 4
    assert samples(ledger, "one", "two")["prefixway_replica_up{replica=a}"] == 1
    told = samples(ledger, "one")
    assert told["prefixway_replica_inflight{replica=a}"] == 2
    assert told["prefixway_requests_total{status=2xx}"] == 2


def test_a_replica_that_no_living_worker_has_is_gone() -> None:
    """What a dead worker counted of it too; if it comes back it begins anew."""
    ledger, dead, alive = MetricsLedger(), Worker("a", "b"), Worker("b")
    for replica in ("a", "b"):
        dead.decisions.labels(replica).inc(3)
    ledger.join("dead")
    ledger.tell("dead", dead.page())
    ledger.leave("dead")
    assert samples(ledger)["prefixway_decisions_total{replica=a}"] == 3  # nobody alive has told of any
    ledger.join("alive")
    assert samples(ledger)["prefixway_decisions_total{replica=a}"] == 3
    ledger.tell("alive", alive.page())
    told = samples(ledger, "alive")

    assert "prefixway_decisions_total{replica=a}" not in told
    assert told["prefixway_decisions_total{replica=b}"] == 3
    alive.up.labels("a").set(1)
    ledger.tell("alive", alive.page())
    assert "prefixway_decisions_total{replica=a}" not in samples(ledger, "alive")


def test_what_is_no_page_is_refused() -> None:
    """And nothing of it is kept."""
    ledger = MetricsLedger()
    ledger.join("one")
    with pytest.raises(ValueError, match="could not convert"):
        ledger.tell("one", "what is this\n")

    assert samples(ledger) == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["count", "tell", "die"])), max_size=40))
def test_sums_are_what_was_told_and_never_fall(actions: list[tuple[int, str]]) -> None:
    """Whatever workers count, tell and do, in any order."""
    ledger = MetricsLedger()
    alive = {name: Worker() for name in range(4)}
    told = dict.fromkeys(range(4), 0)
    born, past, last = 4, 0, 0.0
    for name in alive:
        ledger.join(name)
    names = list(range(4))
    for at, action in actions:
        name = names[at]
        if action == "count":
            alive[name].requests.labels("2xx").inc()
        elif action == "tell":
            ledger.tell(name, alive[name].page())
            told[name] = int(alive[name].requests.labels("2xx")._value.get())
        else:
            ledger.leave(name)
            past += told[name]
            names[at], born = born, born + 1
            alive[names[at]], told[names[at]] = Worker(), 0
            ledger.join(names[at])
        now = samples(ledger).get("prefixway_requests_total{status=2xx}", 0.0)
        assert now == past + sum(told[name] for name in names) >= last
        last = now
