"""RequestMetrics: what every request adds to. One registry handed in; labels only from bounded sets.

``model_name`` is a model that a replica serves, else ``other``; routes, outcomes, strategies and reasons come from the
code. What a client wrote never becomes a label.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica
from gateway.router.decision import Decision
from gateway.router.exchange import Exchange

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SHORT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)


class _ModelSeries:
    """The series that one model under one strategy adds to: looked up once, since that costs more than adding."""

    def __init__(self, families: _Families, model: str, strategy: str) -> None:
        labels = (model, strategy)
        self.ttft = families.ttft.labels(*labels)
        self.duration = families.duration.labels(*labels)
        self.added = families.added.labels(*labels)
        self.stages = [stage.labels(*labels) for stage in families.stages]
        self.attempts = families.attempts.labels(model)
        self.prompt_tokens = families.prompt_tokens.labels(model)
        self.predicted = families.predicted.labels(model)
        self.avoided_s = families.avoided_s.labels(model)


class _Families:
    """Every metric of requests, by what it is called here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, histogram = _makers(registry)
        self.requests = counter("requests", "Requests by how they ended", "model_name", "route", "outcome", "status")
        self.attempts = counter("attempts", "Attempts at replicas; above requests: retries", "model_name")
        self.ttft = histogram("ttft_seconds", "From the request's last byte to the answer's first body byte", _SECONDS)
        self.duration = histogram("request_seconds", "From the request's last byte to the answer's last", _SECONDS)
        self.added = histogram("gateway_seconds", "What the gateway adds before sending a request on", _SHORT_SECONDS)
        self.stages = [
            histogram(f"decision_{stage}_seconds", f"Deciding: {doc}", _SHORT_SECONDS)
            for stage, doc in (("encode", "template and tokens"), ("hash", "block hashes"), ("match", "the index"))
        ]
        self.decisions = counter("decisions", "Choices by replica and reason", "strategy", "replica", "reason")
        self.unknown_prompts = counter("prompts_unknown", "Prompts whose tokens are not ours to know", "reason")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens of requests with a decision", "model_name")
        self.predicted = counter("cached_tokens_predicted", "Prompt tokens held by the chosen replica", "model_name")
        self.avoided_s = counter("prefill_seconds_avoided", "Predicted seconds the caches spared", "model_name")
        self.predictions = counter("predictions", "Predictions by what they could be compared with", "source")
        self.compared = counter("cached_tokens_compared", "Both sides of predictions that usage told", "side")


class RequestMetrics:
    """Observes each exchange once, at its end."""

    def __init__(self, registry: CollectorRegistry, knows_model: Callable[[str], bool]) -> None:
        self._knows_model = knows_model
        self._families = _Families(registry)
        self._series: dict[tuple[str, str], _ModelSeries] = {}
        self._present: set[str] = set()

    def observe(self, exchange: Exchange) -> None:
        """Count an exchange that ended."""
        model = exchange.model if self._knows_model(exchange.model) else "other"
        status = f"{exchange.status // 100}xx" if exchange.status else "none"
        self._families.requests.labels(model, exchange.route, exchange.outcome, status).inc()
        decision = exchange.decision
        series = self._series_of(model, decision.strategy if decision else "")
        if exchange.attempts:
            series.attempts.inc(exchange.attempts)
        if exchange.first_byte_s:
            series.ttft.observe(exchange.first_byte_s - exchange.received_s)
        if exchange.ended_s:
            series.duration.observe(exchange.ended_s - exchange.received_s)
        if exchange.decided_s:
            series.added.observe(exchange.decided_s - exchange.received_s)
        if decision is not None:
            self._observe_decision(series, decision)
            self._compare(exchange, decision)

    def _observe_decision(self, series: _ModelSeries, decision: Decision) -> None:
        for stage, seconds in zip(series.stages, decision.stages):
            stage.observe(seconds)
        if decision.replica_id in self._present:
            self._families.decisions.labels(decision.strategy, decision.replica_id, decision.reason).inc()
        if decision.prompt_reason:
            self._families.unknown_prompts.labels(decision.prompt_reason).inc()
        series.prompt_tokens.inc(decision.prompt_tokens)
        series.predicted.inc(decision.confirmed.usable)
        series.avoided_s.inc(decision.avoided_s)

    def _compare(self, exchange: Exchange, decision: Decision) -> None:
        cached_tokens = exchange.usage.cached_tokens if exchange.usage else None
        if not decision.prompt_tokens or decision.incomparable or cached_tokens is None:
            self._families.predictions.labels("unverified").inc()
            return
        self._families.predictions.labels("usage").inc()
        self._families.compared.labels("predicted").inc(decision.confirmed.usable)
        self._families.compared.labels("actual").inc(cached_tokens)

    def _series_of(self, model: str, strategy: str) -> _ModelSeries:
        series = self._series.get((model, strategy))
        if series is None:
            series = self._series[model, strategy] = _ModelSeries(self._families, model, strategy)
        return series

    # PoolListener: the series of a replica that left vanish

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        self._present.add(replica.id)

    def left(self, replica: Replica) -> None:
        self._present.discard(replica.id)
        self._families.decisions.remove_by_labels({"replica": replica.id})

    def process_changed(self, replica: Replica) -> None:
        """Its counts go on."""


def _makers(registry: CollectorRegistry) -> tuple[Callable[..., Counter], Callable[..., Histogram]]:
    def counter(name: str, doc: str, *labels: str) -> Counter:
        return Counter(f"prefixway_{name}", doc, labels, registry=registry)

    def histogram(name: str, doc: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"prefixway_{name}", doc, ("model_name", "strategy"), buckets=buckets, registry=registry)

    return counter, histogram
