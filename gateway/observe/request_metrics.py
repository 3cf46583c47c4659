"""RequestMetrics: what every request adds to. Labels only from bounded sets.

``model_name`` is a model that a replica serves, else ``other``; routes, outcomes, strategies, reasons and codes come
from the code. What a client wrote never becomes a label. To be used by the event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.errors import GatewayError
from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica
from gateway.observe.counts import Counts, Histogram
from gateway.observe.refusal_codes import CODES, refusal_code
from gateway.router.decision import Decision
from gateway.router.exchange import Exchange

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_SHORT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)

_STATUS_CLASSES = ("none", *(f"{first}xx" for first in range(1, 10)))  # by status // 100


class _Families:
    """Every metric of requests, by what it is called here, in the order in which they are shown."""

    def __init__(self) -> None:
        self.requests = _counts("requests", "Requests by how they ended", "model_name", "route", "outcome", "status")
        self.attempts = _counts("attempts", "Attempts at replicas; above requests: retries", "model_name")
        self.ttft = _histogram("ttft_seconds", "From the request's last byte to the answer's first body byte", _SECONDS)
        self.duration = _histogram("request_seconds", "From the request's last byte to the answer's last", _SECONDS)
        self.added = _histogram("gateway_seconds", "What the gateway adds before sending a request on", _SHORT_SECONDS)
        self.encode = _histogram("decision_encode_seconds", "Deciding: template and tokens", _SHORT_SECONDS)
        self.hash = _histogram("decision_hash_seconds", "Deciding: block hashes", _SHORT_SECONDS)
        self.match = _histogram("decision_match_seconds", "Deciding: the index", _SHORT_SECONDS)
        self.decisions = _counts("decisions", "Choices by replica and reason", "strategy", "replica", "reason")
        self.unknown_prompts = _counts("prompts_unknown", "Prompts whose tokens are not ours to know", "reason")
        self.prompt_tokens = _counts("prompt_tokens", "Prompt tokens of requests with a decision", "model_name")
        self.predicted = _counts("cached_tokens_predicted", "Prompt tokens held by the chosen replica", "model_name")
        self.avoided_s = _counts("prefill_seconds_avoided", "Predicted seconds the caches spared", "model_name")
        self.queued = _histogram("queue_seconds", "Requests that waited for a place: how long", _SECONDS)
        self.retries = _counts("retries", "Attempts after a request's first", "model_name")
        self.refused = _counts("refused", "Requests answered with an error of the gateway's own", "code")
        self.unreadable = _counts("unreadable_requests", "What came and was no request that can be read", "code")

    def collect(self) -> Iterable[Metric]:
        return (family.family() for family in vars(self).values())


class _ModelSeries:
    """The series that one model under one strategy adds to: looked up once, since that costs more than adding."""

    __slots__ = ("added", "duration", "encode", "hash", "match", "model_labels", "queued", "ttft")

    def __init__(self, families: _Families, model: str, strategy: str) -> None:
        labels = (model, strategy)
        self.ttft = families.ttft.series(labels)
        self.duration = families.duration.series(labels)
        self.added = families.added.series(labels)
        self.encode = families.encode.series(labels)
        self.hash = families.hash.series(labels)
        self.match = families.match.series(labels)
        self.queued = families.queued.series(labels)
        self.model_labels = (model,)
        of_models = (families.attempts, families.prompt_tokens, families.predicted, families.avoided_s)
        for counts in (*of_models, families.retries):
            counts.begin(self.model_labels)


class RequestMetrics(Collector):
    """Observes each exchange once, at its end. Registers itself."""

    def __init__(self, registry: CollectorRegistry, knows_model: Callable[[str], bool]) -> None:
        self._knows_model = knows_model
        self._families = _Families()
        self._series: dict[tuple[str, str], _ModelSeries] = {}
        self._present: set[str] = set()
        for code in sorted(CODES):  # else the first error of a kind, which begins its series, is no increase
            self._families.refused.begin((code,))
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return self._families.collect()

    def observe(self, exchange: Exchange) -> None:
        """Count an exchange that ended."""
        families, decision, received_s = self._families, exchange.decision, exchange.received_s
        model = exchange.model if self._knows_model(exchange.model) else "other"
        status = _STATUS_CLASSES[exchange.status // 100]
        families.requests[model, exchange.route, exchange.outcome, status] += 1
        series = self._series_of(model, decision.strategy if decision is not None else "")
        if exchange.attempts:
            families.attempts[series.model_labels] += exchange.attempts
            if exchange.attempts > 1:
                families.retries[series.model_labels] += exchange.attempts - 1
        if exchange.first_byte_s:
            series.ttft.add(exchange.first_byte_s - received_s)
        if exchange.ended_s:
            series.duration.add(exchange.ended_s - received_s)
        if exchange.decided_s:
            series.added.add(exchange.decided_s - received_s)
        if exchange.queued_s:
            series.queued.add(exchange.queued_s)
        if exchange.error:
            families.refused[(refusal_code(exchange.error_code, exchange.error),)] += 1
        if decision is not None:
            self._observe_decision(series, exchange, decision)

    def unreadable(self, error: GatewayError) -> None:
        """Count bytes that were refused with ``error`` because they are no request."""
        self._families.unreadable[(refusal_code(error.code or "", type(error).__name__),)] += 1

    def _observe_decision(self, series: _ModelSeries, exchange: Exchange, decision: Decision) -> None:
        families = self._families
        if decision.replica_id in self._present:
            families.decisions[decision.strategy, decision.replica_id, decision.reason] += 1
        if decision.prompt_reason:
            families.unknown_prompts[(decision.prompt_reason,)] += 1
        elif not decision.prompt_tokens:
            return  # nobody read the prompt: there was no stage, and nothing was predicted
        encode_s, hash_s, match_s = decision.stages
        series.encode.add(encode_s)
        series.hash.add(hash_s)
        series.match.add(match_s)
        families.prompt_tokens[series.model_labels] += decision.prompt_tokens
        families.predicted[series.model_labels] += decision.confirmed.usable
        families.avoided_s[series.model_labels] += decision.avoided_s

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
        self._families.decisions.forget("replica", replica.id)

    def process_changed(self, replica: Replica) -> None:
        """Its counts go on."""


def _counts(name: str, doc: str, *labels: str) -> Counts:
    return Counts(f"prefixway_{name}", doc, *labels)


def _histogram(name: str, doc: str, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(f"prefixway_{name}", doc, bounds, "model_name", "strategy")
