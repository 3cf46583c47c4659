"""What requests add to /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from gateway.fleet.outcome import Outcome
from gateway.observe.request_metrics import RequestMetrics
from gateway.usage import Usage
from tests.gateway.examples import MODEL, a_decision, a_pool
from tests.gateway.observe.examples import an_exchange


def _metrics() -> tuple[RequestMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry, lambda model: model == MODEL)
    for replica in a_pool().replicas:
        metrics.joined(replica, None)
    return metrics, registry


def _value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"prefixway_{name}", labels)


def test_a_good_request() -> None:
    """Counts, times, predicted and actual cached tokens."""
    metrics, registry = _metrics()
    metrics.observe(an_exchange())

    assert _value(registry, "requests_total", model_name=MODEL, route="chat", outcome="ok", status="2xx") == 1
    assert _value(registry, "ttft_seconds_sum", model_name=MODEL, strategy="kv_aware") == 0.5
    assert _value(registry, "request_seconds_sum", model_name=MODEL, strategy="kv_aware") == 2.0
    assert _value(registry, "decision_encode_seconds_sum", model_name=MODEL, strategy="kv_aware") == 0.001
    assert _value(registry, "decisions_total", strategy="kv_aware", replica="a", reason="prefix") == 1
    assert _value(registry, "prompt_tokens_total", model_name=MODEL) == 1925
    assert _value(registry, "cached_tokens_predicted_total", model_name=MODEL) == 640
    assert _value(registry, "prefill_seconds_avoided_total", model_name=MODEL) == 0.1
    assert _value(registry, "predictions_total", source="usage") == 1
    assert _value(registry, "cached_tokens_compared_total", side="actual") == 640


def test_accuracy_is_only_counted_where_it_can_be_told() -> None:
    """No usage, no cached tokens, an unknown prompt or one vLLM counts otherwise: unverified."""
    metrics, registry = _metrics()
    metrics.observe(an_exchange(usage=None))
    metrics.observe(an_exchange(usage=Usage(1, 1, None)))
    metrics.observe(an_exchange(decision=a_decision(incomparable="echo_logprobs")))
    metrics.observe(an_exchange(decision=a_decision(prompt_tokens=0, prompt_reason="image")))

    assert _value(registry, "predictions_total", source="unverified") == 4
    assert _value(registry, "cached_tokens_compared_total", side="actual") is None
    assert _value(registry, "prompts_unknown_total", reason="image") == 1


def test_every_outcome_can_be_counted() -> None:
    """Each ending once, with and without a decision: no label is missing anywhere."""
    metrics, registry = _metrics()
    for outcome in [*Outcome]:
        metrics.observe(an_exchange(outcome=outcome.value))
    metrics.observe(an_exchange(outcome="refused", status=404, decision=None, usage=None, first_byte_s=0.0))
    metrics.observe(an_exchange(outcome="client_gone", status=0, decision=None, usage=None, ended_s=0.0))

    assert b'outcome="refused",route="chat",status="4xx"' in generate_latest(registry)
    assert b'outcome="client_gone",route="chat",status="none"' in generate_latest(registry)


def test_unknown_models_share_one_label() -> None:
    """What clients write is no label."""
    metrics, registry = _metrics()
    for number in range(50):
        metrics.observe(an_exchange(model=f"m{number}"))

    assert _value(registry, "requests_total", model_name="other", route="chat", outcome="ok", status="2xx") == 50
    assert b"m49" not in generate_latest(registry)


def test_series_of_a_replica_that_left_vanish() -> None:
    """A stream that ends later brings nothing back; the replica itself does."""
    metrics, registry = _metrics()
    (a, _) = a_pool().replicas

    def count() -> float | None:
        return _value(registry, "decisions_total", strategy="kv_aware", replica="a", reason="prefix")

    counts = []
    for change in (metrics.process_changed, metrics.left, lambda replica: metrics.joined(replica, None)):
        change(a)
        metrics.observe(an_exchange())
        counts.append(count())

    assert counts == [1, None, 1]
