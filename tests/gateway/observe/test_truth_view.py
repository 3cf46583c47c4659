"""What is shown of predictions: never an accuracy without its coverage."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from gateway.fleet.outcome import Outcome
from gateway.kv.l2_estimate import L2Estimate
from gateway.observe.truth_view import TruthView
from tests.gateway.router.toy_fleet import ToyFleet

PROMPT = range(1000, 1200)


def _view(fleet: ToyFleet) -> tuple[TruthView, CollectorRegistry]:
    registry, view = CollectorRegistry(), TruthView(fleet.truth)
    registry.register(view)
    return view, registry


def test_both_or_neither() -> None:
    """Nothing, then only why nothing is known, then accuracy and coverage together."""
    fleet = ToyFleet()
    view, _ = _view(fleet)
    key = fleet.only.replica.key
    nothing = view.status(key)
    fleet.finish(fleet.send(PROMPT, n=2))
    neither = view.status(key)
    fleet.clock.now += 3
    for _ in range(3):
        fleet.ask(PROMPT)
    both = view.status(key)

    assert nothing == {}
    assert neither["unverified"] == {"several_choices": 1}
    assert not {"coverage", "accuracy"} & neither.keys()
    assert both["prompt_tokens"] == {"usage": 600, "unverified": 200}
    assert both["coverage"] == {"usage": 0.75, "counters": 0.0, "unverified": 0.25}
    assert both["accuracy"] == {
        "predicted_tokens": {"usage": 3 * 192},
        "actual_tokens": {"usage": 3 * 192},
        "over_tokens": 0,
        "over_tokens_evicted": 0,
        "under_tokens": 0,
        "under_tokens_from": {},
        "error": 0.0,
    }
    assert both["lately"] == {
        "requests": 4.0,
        "compared": 3.0,
        "predicted_tokens": 576.0,
        "over_tokens": 0.0,
        "over_tokens_evicted": 0.0,
        "over_share": 0.0,
        "miscounted": 0.0,
        "confirmed": 1.0,
        "unconfirmed": {},
    }


def test_the_metrics() -> None:
    """Of all by source, side and reason; of each replica; and a replica that left has none."""
    fleet = ToyFleet()
    _, registry = _view(fleet)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"prefixway_{name}", labels)

    at_first = [value("predictions_total", source=source) for source in ("usage", "counters", "unverified")]
    fleet.ask(PROMPT)
    fleet.ask(PROMPT)
    fleet.only.clear()
    fleet.only.tells_stores = False
    fleet.ask(range(5000, 5100), cache_salt="pepper")
    fleet.finish(fleet.send(PROMPT), miscounts=1)

    assert at_first == [0, 0, 0]
    assert value("predictions_total", source="usage") == 3
    assert value("predictions_prompt_tokens_total", source="unverified") == 200
    assert value("predictions_unverified_total", reason="miscounted") == 1
    assert value("cached_tokens_compared_total", side="predicted") == 192
    assert value("cached_tokens_compared_total", side="actual") == 192
    assert value("cached_tokens_counted_total", side="actual") == 0
    assert value("replica_predictions_total", replica="a", source="usage") == 3
    assert value("replica_predictions_prompt_tokens_total", replica="a", source="usage") == 500
    assert value("replica_cached_tokens_compared_total", replica="a", side="predicted") == 192
    assert value("replica_cached_tokens_compared_total", replica="a", side="actual") == 192
    assert value("cached_tokens_over_predicted_total", replica="a") == 0
    assert value("prompts_miscounted_total", replica="a") == 1
    assert value("prompts_confirmed_total", replica="a") == 1
    assert value("prompts_unconfirmed_total", replica="a", kind="salted") == 1
    fleet.truth.left(fleet.only.replica)
    assert b'replica="a"' not in generate_latest(registry)
    assert value("predictions_total", source="usage") == 3


def test_the_metrics_of_the_estimate() -> None:
    """What was estimated, and both sides of what usage told of; from the start, so that an increase is seen."""
    estimate = L2Estimate()
    fleet = ToyFleet(l2=estimate)
    _, registry = _view(fleet)

    def values() -> list[float | None]:
        compared = [{"side": "estimated"}, {"side": "actual"}]
        names = [
            ("l2_estimated_tokens_total", {}),
            *(("l2_estimated_tokens_compared_total", side) for side in compared),
        ]
        return [registry.get_sample_value(f"prefixway_{name}", labels) for name, labels in names]

    at_first = values()
    running = fleet.send(range(2000))
    estimate.finished(running.chain, 16, now=fleet.clock.now)
    running.attempt.end(Outcome.CLIENT_GONE)
    fleet.clock.now += 5
    fleet.finish(fleet.send(range(2000)), loaded=1024)

    assert at_first == [0, 0, 0]
    assert values() == [1792, 1792, 1024]
