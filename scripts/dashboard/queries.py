"""Queries: PromQL for what the gateways tell, filtered by the dashboard's variables.

Each gateway tells what it did itself, which adds up, and what it sees of replicas, which every gateway sees: of that
there is one value for all of them. The functions below are named after which of the two they are for.
"""

from __future__ import annotations

_WHO = 'namespace=~"$namespace", job=~"$job", instance=~"$instance"'
_MODEL = 'model_name=~"$model_name"'
_OF_MODELS = frozenset(
    {
        "requests_total",
        "attempts_total",
        "retries_total",
        "prompt_tokens_total",
        "cached_tokens_predicted_total",
        "prefill_seconds_avoided_total",
        "ttft_seconds_bucket",
        "request_seconds_bucket",
        "gateway_seconds_bucket",
        "queue_seconds_bucket",
        "decision_encode_seconds_bucket",
        "decision_hash_seconds_bucket",
        "decision_match_seconds_bucket",
    }
)


def of(name: str, *labels: str) -> str:
    """The series of a metric, named without ``prefixway_``; ``labels`` are matchers such as ``side="actual"``."""
    matchers = [_WHO, *([_MODEL] if name in _OF_MODELS else []), *labels]
    return f"prefixway_{name}{{{', '.join(matchers)}}}"


def rate(counter: str, *labels: str) -> str:
    """A second, of each series. ``counter`` without ``_total``."""
    return f"rate({of(f'{counter}_total', *labels)}[$__rate_interval])"


def added(counter: str, *labels: str, by: str = "") -> str:
    """A second, of what each gateway counts of its own."""
    return f"sum {_by(by)}({rate(counter, *labels)})"


def added_in_range(counter: str, *labels: str) -> str:
    """The same in all of the time that the dashboard shows."""
    return f"sum (increase({of(f'{counter}_total', *labels)}[$__range]))"


def seen(counter: str, *labels: str, by: str) -> str:
    """A second, of what more than one gateway counts of the same thing."""
    return f"max {_by(by)}({rate(counter, *labels)})"


def quantile(share: float, histogram: str, *labels: str, by: str = "") -> str:
    """Of what all gateways measured together."""
    by = f"le, {by}" if by else "le"
    buckets = f"rate({of(f'{histogram}_bucket', *labels)}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({by}) ({buckets}))"


def sum_of(gauge: str, *labels: str, by: str = "") -> str:
    """Of what each gateway has of its own, now."""
    return f"sum {_by(by)}({of(gauge, *labels)})"


def max_of(gauge: str, *labels: str, by: str = "") -> str:
    """Of what all gateways see: the largest."""
    return f"max {_by(by)}({of(gauge, *labels)})"


def min_of(gauge: str, *labels: str, by: str = "") -> str:
    """Of what all gateways see: the smallest."""
    return f"min {_by(by)}({of(gauge, *labels)})"


def mean_of(gauge: str, *labels: str, by: str = "") -> str:
    """Of what all gateways see: how many of them see it so, where it is 0 or 1."""
    return f"avg {_by(by)}({of(gauge, *labels)})"


def or_zero(query: str) -> str:
    """A query without labels that is 0 where there is no series yet."""
    return f"({query} or vector(0))"


def _by(labels: str) -> str:
    return f"by ({labels}) " if labels else ""
