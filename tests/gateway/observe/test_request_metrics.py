"""What requests add to /metrics."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder

from gateway.errors import BadRequest, HeadersTooLarge
from gateway.fleet.outcome import Outcome
from gateway.observe.request_metrics import RequestMetrics
from gateway.usage import Usage
from tests.gateway.examples import MODEL, a_decision, a_pool
from tests.gateway.observe.examples import an_exchange, several_exchanges

PAGE = Path(__file__).parents[2] / "data" / "metrics" / "requests.txt"


def _metrics() -> tuple[RequestMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry, lambda model: model == MODEL)
    for replica in a_pool().replicas:
        metrics.joined(replica, None)
    return metrics, registry


def _value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"prefixway_{name}", labels)


def test_a_good_request() -> None:
    """Counts, times, predicted cached tokens."""
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


def test_prompts_that_nobody_knows_are_counted_by_reason() -> None:
    """And have no tokens."""
    metrics, registry = _metrics()
    metrics.observe(an_exchange(decision=a_decision(prompt_tokens=0, prompt_reason="image")))

    assert _value(registry, "prompts_unknown_total", reason="image") == 1
    assert _value(registry, "prompt_tokens_total", model_name=MODEL) == 0


def test_the_page_stays_as_dashboards_know_it() -> None:
    """Names, labels, help, buckets and values, line by line. What is new comes after it."""
    metrics, registry = _metrics()
    for exchange in several_exchanges():
        metrics.observe(exchange)

    assert generate_latest(registry).decode().startswith(PAGE.read_text())


def test_every_outcome_can_be_counted() -> None:
    """Each ending with each kind of decision and usage: no label is missing anywhere, and twice is no more series."""
    metrics, registry = _metrics()
    outcomes = [*(outcome.value for outcome in Outcome), "refused", "shutdown", "fault"]
    decisions = [None, a_decision(), a_decision(prompt_tokens=0), a_decision(prompt_tokens=0, prompt_reason="image")]
    usages = [None, Usage(1, 1, None), Usage(1925, 7, 640)]
    pages = []
    for _ in range(2):
        for outcome, decision, usage, status in product(outcomes, decisions, usages, (0, 200, 404, 503, 999)):
            fields = {"outcome": outcome, "decision": decision, "usage": usage, "status": status}
            metrics.observe(an_exchange(**fields))
            metrics.observe(an_exchange(**fields, error="NoReplica", error_code="no_replica", queued_s=1.0, attempts=3))
            metrics.observe(an_exchange(**fields, first_byte_s=0.0, ended_s=0.0, decided_s=0.0, attempts=0))
        metrics.unreadable(BadRequest("That is no request."))
        pages.append(generate_latest(registry))

    assert b'outcome="refused",route="chat",status="4xx"' in pages[0]
    assert b'outcome="client_gone",route="chat",status="none"' in pages[0]
    assert len(pages[0].splitlines()) == len(pages[1].splitlines())
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    assert encode(registry).endswith(b"# EOF\n")


def test_a_prompt_that_nobody_read_is_no_prediction() -> None:
    """A strategy that does not look at prompts: the choice counts, tokens and stages do not."""
    metrics, registry = _metrics()
    metrics.observe(an_exchange(decision=a_decision(prompt_tokens=0, reason="rotation")))

    assert _value(registry, "decisions_total", strategy="kv_aware", replica="a", reason="rotation") == 1
    assert _value(registry, "decision_encode_seconds_count", model_name=MODEL, strategy="kv_aware") == 0
    assert _value(registry, "prompt_tokens_total", model_name=MODEL) == 0


def test_only_requests_that_waited_for_a_place_count_as_queued() -> None:
    """Most do not wait."""
    metrics, registry = _metrics()
    metrics.observe(an_exchange())
    metrics.observe(an_exchange(queued_s=1.5))

    assert _value(registry, "queue_seconds_count", model_name=MODEL, strategy="kv_aware") == 1
    assert _value(registry, "queue_seconds_sum", model_name=MODEL, strategy="kv_aware") == 1.5


def test_attempts_after_the_first_are_retries() -> None:
    """A request that never came to an attempt takes none away."""
    metrics, registry = _metrics()
    for attempts in (0, 1, 3):
        metrics.observe(an_exchange(attempts=attempts))

    assert _value(registry, "attempts_total", model_name=MODEL) == 4
    assert _value(registry, "retries_total", model_name=MODEL) == 2


def test_refusals_are_counted_by_code() -> None:
    """One without a code by its class; a code that is none of ours makes no label. Ours are there before the first."""
    metrics, registry = _metrics()
    for code, error in (("no_replica", "NoReplica"), ("", "BodyTooLarge"), ("x\n" * 100, "BadRequest")):
        metrics.observe(an_exchange(error=error, error_code=code))
    metrics.observe(an_exchange())

    codes = ("no_replica", "body_too_large", "other")
    assert [_value(registry, "refused_total", code=code) for code in codes] == [1, 1, 1]
    assert _value(registry, "refused_total", code="queue_timeout") == 0


def test_bytes_that_are_no_request_are_counted() -> None:
    """By why they were refused, and not as requests."""
    metrics, registry = _metrics()
    metrics.unreadable(HeadersTooLarge("Too much."))
    metrics.unreadable(BadRequest("Two lengths.", code="made up"))

    assert _value(registry, "unreadable_requests_total", code="headers_too_large") == 1
    assert _value(registry, "unreadable_requests_total", code="other") == 1
    assert b"prefixway_requests_total{" not in generate_latest(registry)


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
