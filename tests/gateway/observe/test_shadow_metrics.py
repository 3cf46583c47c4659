"""What shadows would have done, as metrics and as rows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.observe.shadow_metrics import ShadowMetrics
from gateway.router.shadow import Regret


def _metrics() -> tuple[ShadowMetrics, CollectorRegistry]:
    metrics, registry = ShadowMetrics(["x"]), CollectorRegistry()
    registry.register(metrics)
    metrics.agreed("x", "kv_aware")
    metrics.differed("x", "kv_aware", Regret(1.5, -900))
    metrics.differed("x", "kv_aware", Regret(-0.5, 400))
    metrics.differed("x", "kv_aware", Regret(-0.25, 0))
    return metrics, registry


def test_choices_are_counted_by_who_was_heeded_and_whether_they_agree() -> None:
    _, registry = _metrics()
    pair = {"shadow": "x", "strategy": "kv_aware"}

    assert registry.get_sample_value("prefixway_shadow_decisions_total", pair | {"agreed": "yes"}) == 1
    assert registry.get_sample_value("prefixway_shadow_decisions_total", pair | {"agreed": "no"}) == 3


def test_seconds_saved_and_lost_are_apart() -> None:
    """And so are tokens: what is lost here is not made good there."""
    _, registry = _metrics()

    def value(name: str, effect: str) -> float | None:
        labels = {"shadow": "x", "strategy": "kv_aware", "effect": effect}
        return registry.get_sample_value(f"prefixway_shadow_{name}", labels)

    assert (value("seconds_total", "saved"), value("seconds_total", "lost")) == (1.5, 0.75)
    assert (value("cached_tokens_total", "gained"), value("cached_tokens_total", "lost")) == (400, 900)


def test_the_page_has_the_same() -> None:
    metrics, _ = _metrics()
    (row,) = metrics.status()

    assert (row["decisions"], row["agreed"], row["saved_s"], row["lost_s"]) == (4, 1, 1.5, 0.75)
    assert (row["mean_regret_s"], row["cached_tokens"]) == (0.1875, -500)


def test_failures_are_there_from_the_start() -> None:
    """Else the first of them would be no increase; pairs come with their first choice."""
    metrics, registry = ShadowMetrics(["x"]), CollectorRegistry()
    registry.register(metrics)
    before = registry.get_sample_value("prefixway_shadow_failures_total", {"shadow": "x"})
    metrics.failed("x")

    assert before == 0
    assert registry.get_sample_value("prefixway_shadow_failures_total", {"shadow": "x"}) == 1
    assert metrics.status() == []
