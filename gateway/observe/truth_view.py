"""TruthView: what became of predictions, as metrics and as a part of the status page.

Read when asked. Of a prediction that nobody could verify nothing is known, however right the others were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.fleet.replica_key import ReplicaKey
from gateway.observe.truth_page import truth_page
from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE, PredictionCounts
from gateway.router.truth import Truth

#: Shown from the start: of a series that begins with its first prediction Prometheus sees no increase.
_NONE_YET = {USAGE: 0, COUNTERS: 0, UNVERIFIED: 0}


class TruthView(Collector):
    """A collector for prometheus_client; register it once."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def collect(self) -> Iterable[Metric]:
        self._truth.settle()
        yield from _of_all(self._truth.total)
        yield from _of_replicas(self._truth.by_replica)

    def status(self, key: ReplicaKey) -> dict[str, object]:
        """Of one replica; empty where nothing was predicted of it yet."""
        self._truth.settle()
        counts, evidence = self._truth.counts(key.replica_id), self._truth.evidence(key)
        if counts is None:
            return {}
        return truth_page(counts, evidence)


def _of_all(total: PredictionCounts) -> Iterable[Metric]:
    by_source, prompt_tokens = _NONE_YET | total.by_source, _NONE_YET | total.prompt_tokens
    yield _by(by_source, "predictions", "Predictions by how they were verified", "source")
    yield _by(prompt_tokens, "predictions_prompt_tokens", "Their prompts' tokens: the coverage", "source")
    yield _by(total.unverified, "predictions_unverified", "Predictions that were not, by why not", "reason")
    for source, name, doc in (
        (USAGE, "cached_tokens_compared", "Both sides of predictions that usage told"),
        (COUNTERS, "cached_tokens_counted", "Both sides of predictions that the replicas' counters told"),
    ):
        family = _counter(name, doc, "side")
        family.add_metric(("predicted",), total.predicted_tokens[source])
        family.add_metric(("actual",), total.actual_tokens[source])
        yield family
    yield from _of_the_estimate(total)


def _of_the_estimate(total: PredictionCounts) -> Iterable[Metric]:
    """No predictions: what was expected of L2 without being told."""
    tokens = _counter("l2_estimated_tokens", "Prompt tokens that were to come from L2, by an estimate")
    tokens.add_metric((), total.estimated_tokens)
    yield tokens
    compared = _counter("l2_estimated_tokens_compared", "The same where usage told what was found", "side")
    compared.add_metric(("estimated",), total.estimated_compared_tokens)
    compared.add_metric(("actual",), total.estimated_found_tokens)
    yield compared


def _of_replicas(by_replica: Mapping[str, PredictionCounts]) -> Iterable[Metric]:
    verified = _counter("replica_predictions", "Predictions by how they were verified", "replica", "source")
    tokens = _counter("replica_predictions_prompt_tokens", "Their prompts' tokens", "replica", "source")
    compared = _counter(
        "replica_cached_tokens_compared", "Both sides of predictions that usage told", "replica", "side"
    )
    over = _counter("cached_tokens_over_predicted", "Predicted and not there", "replica")
    evicted = _counter("cached_tokens_evicted", "Of those, what was evicted after the decision", "replica")
    under = _counter("cached_tokens_under_predicted", "There and not predicted, by where from", "replica", "source")
    miscounted = _counter("prompts_miscounted", "Prompts of which the replica counts other tokens", "replica")
    confirmed = _counter("prompts_confirmed", "Prompts whose new blocks its events told of", "replica")
    unconfirmed = _counter("prompts_unconfirmed", "Prompts whose new blocks they did not tell of", "replica", "kind")
    for replica_id, counts in by_replica.items():
        replica = (replica_id,)
        _add(verified, replica, counts.by_source)
        _add(tokens, replica, counts.prompt_tokens)
        if counts.by_source[USAGE]:
            compared.add_metric((replica_id, "predicted"), counts.predicted_tokens[USAGE])
            compared.add_metric((replica_id, "actual"), counts.actual_tokens[USAGE])
        over.add_metric(replica, counts.over_tokens)
        evicted.add_metric(replica, counts.evicted_tokens)
        _add(under, replica, counts.under_tokens)
        miscounted.add_metric(replica, counts.miscounted)
        confirmed.add_metric(replica, counts.confirmed)
        _add(unconfirmed, replica, counts.unconfirmed)
    yield from (verified, tokens, compared, over, evicted, under, miscounted, confirmed, unconfirmed)


def _by(counts: Mapping[str, int], name: str, doc: str, label: str) -> CounterMetricFamily:
    family = _counter(name, doc, label)
    _add(family, (), counts)
    return family


def _add(family: CounterMetricFamily, labels: tuple[str, ...], counts: Mapping[str, int]) -> None:
    for value, count in counts.items():
        family.add_metric((*labels, value), count)


def _counter(name: str, doc: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"prefixway_{name}", doc, labels=labels)
