"""RequestMetrics: what every request adds to. One registry handed in; labels only from bounded sets.

``model_name`` is a model that a replica serves, else ``other``; routes, outcomes, strategies and reasons come from the
code. What a client wrote never becomes a label.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from gateway.decision import Decision
from gateway.exchange import Exchange
from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SHORT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)


class RequestMetrics:
    """Observes each exchange once, at its end."""

    def __init__(self, registry: CollectorRegistry, knows_model: Callable[[str], bool]) -> None:
        self._knows_model = knows_model
        counter, histogram = _makers(registry)
        self._requests = counter("requests", "Requests by how they ended", "model_name", "route", "outcome", "status")
        self._attempts = counter("attempts", "Attempts at replicas; above requests: retries", "model_name")
        self._ttft = histogram("ttft_seconds", "From the request's last byte to the answer's first body byte", _SECONDS)
        self._duration = histogram("request_seconds", "From the request's last byte to the answer's last", _SECONDS)
        self._added = histogram("gateway_seconds", "What the gateway adds before sending a request on", _SHORT_SECONDS)
        self._stages = {
            stage: histogram(f"decision_{stage}_seconds", f"Deciding: {doc}", _SHORT_SECONDS)
            for stage, doc in (
                ("encode", "template and tokens"),
                ("hash", "block hashes"),
                ("match", "the index"),
            )
        }
        self._decisions = counter("decisions", "Choices by replica and reason", "strategy", "replica", "reason")
        self._unknown_prompts = counter("prompts_unknown", "Prompts whose tokens are not ours to know", "reason")
        self._prompt_tokens = counter("prompt_tokens", "Prompt tokens of requests with a decision", "model_name")
        self._predicted = counter("cached_tokens_predicted", "Prompt tokens held by the chosen replica", "model_name")
        self._avoided_s = counter("prefill_seconds_avoided", "Predicted seconds the caches spared", "model_name")
        self._verified = counter("predictions", "Predictions by what they could be compared with", "source")
        self._compared = counter("cached_tokens_compared", "Both sides of predictions that usage told", "side")

    def observe(self, exchange: Exchange) -> None:
        """Count an exchange that ended."""
        model = self._model_label(exchange.model)
        self._requests.labels(model, exchange.route, exchange.outcome, _status_class(exchange.status)).inc()
        if exchange.attempts:
            self._attempts.labels(model).inc(exchange.attempts)
        decision = exchange.decision
        strategy = decision.strategy if decision else ""
        for histogram, end_s in (
            (self._ttft, exchange.first_byte_s),
            (self._duration, exchange.ended_s),
            (self._added, exchange.decided_s),
        ):
            if end_s:
                histogram.labels(model, strategy).observe(end_s - exchange.received_s)
        if decision is not None:
            self._observe_decision(model, decision)
            self._compare(exchange, decision)

    def _observe_decision(self, model: str, decision: Decision) -> None:
        for stage, seconds in zip(self._stages.values(), decision.stages):
            stage.labels(model, decision.strategy).observe(seconds)
        self._decisions.labels(decision.strategy, decision.replica_id, decision.reason).inc()
        if decision.prompt_reason:
            self._unknown_prompts.labels(decision.prompt_reason).inc()
        self._prompt_tokens.labels(model).inc(decision.prompt_tokens)
        self._predicted.labels(model).inc(decision.confirmed.usable)
        self._avoided_s.labels(model).inc(decision.avoided_s)

    def _compare(self, exchange: Exchange, decision: Decision) -> None:
        usage = exchange.usage
        told = usage is not None and usage.cached_tokens is not None
        if not decision.prompt_tokens or decision.incomparable or not told or usage is None:
            self._verified.labels("unverified").inc()
            return
        self._verified.labels("usage").inc()
        self._compared.labels("predicted").inc(decision.confirmed.usable)
        self._compared.labels("actual").inc(usage.cached_tokens or 0)

    def _model_label(self, model: str) -> str:
        return model if self._knows_model(model) else "other"

    # PoolListener: the series of a replica that left vanish

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        """Its series begin with its first request."""

    def left(self, replica: Replica) -> None:
        self._decisions.remove_by_labels({"replica": replica.id})

    def process_changed(self, replica: Replica) -> None:
        """Its counts go on."""


def _status_class(status: int) -> str:
    return f"{status // 100}xx" if status else "none"


def _makers(registry: CollectorRegistry) -> tuple[Callable[..., Counter], Callable[..., Histogram]]:
    def counter(name: str, doc: str, *labels: str) -> Counter:
        return Counter(f"prefixway_{name}", doc, labels, registry=registry)

    def histogram(name: str, doc: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"prefixway_{name}", doc, ("model_name", "strategy"), buckets=buckets, registry=registry)

    return counter, histogram
