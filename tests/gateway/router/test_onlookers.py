"""Whoever looks on sees the first choice of each request, and changes none."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pytest

from gateway.fleet.outcome import Outcome
from gateway.fleet.response_home import Home
from gateway.observe.shadow_metrics import ShadowMetrics
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.decision_record import DecisionRecord
from gateway.router.onlookers import Onlookers
from gateway.router.recorder import Recorder
from gateway.router.response_homes import ResponseHomes
from gateway.router.router import Router
from gateway.router.shadow import Shadows
from router_strategies import Candidate, Choice, Cost, RouteRequest, Strategy, load
from tests.gateway.examples import MODEL, SECRET, Clock, a_pool, a_router

PROMPT = list(range(1000))


class Mute(Strategy):
    """Chooses, and cannot say why."""

    def select(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Choice:
        return Choice(candidates[0], "cost")

    def costs(self, request: RouteRequest, candidates: Sequence[Candidate]) -> Sequence[Cost]:
        raise ZeroDivisionError


def _request(prompt: object = PROMPT) -> InferenceRequest:
    return InferenceRequest.parse("completions", json.dumps({"model": MODEL, "prompt": prompt}).encode())


def _watched(router: Router, *names: str) -> ShadowMetrics:
    metrics = ShadowMetrics(names)
    router.watch(Onlookers(Shadows({name: load(name) for name in names}, metrics)))
    return metrics


def _recorded(router: Router, request: InferenceRequest) -> DecisionRecord | None:
    prepared = router.prepare_now(request)
    assert prepared is not None
    return router.attempt(prepared).decision.record


def _counted(metrics: ShadowMetrics) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("shadow", "strategy", "decisions")) for row in metrics.status()]


async def test_retries_are_not_seen() -> None:
    """One request, two attempts, one question; and what was recorded is of the first."""
    router = a_router(a_pool())
    metrics = ShadowMetrics(("round_robin",))
    shadows = Shadows({"round_robin": load("round_robin")}, metrics)
    router.watch(Onlookers(shadows, Recorder(lambda: SECRET)))
    prepared = await router.prepare(_request())
    first = router.attempt(prepared)
    first.end(Outcome.UNREACHABLE)
    second = router.attempt(prepared, frozenset({first.server_id}))

    assert _counted(metrics) == [("round_robin", "kv_aware", 1)]
    record = first.decision.record
    assert record is not None
    assert record is second.decision.record
    assert len(record.candidates) == 2


async def test_what_only_one_server_can_serve_is_not_seen() -> None:
    """A stored response has its home: nothing is chosen."""
    homes = ResponseHomes(clock=Clock())
    homes.learned("resp_1", Home("b", MODEL))
    router = a_router(a_pool(), homes=homes)
    metrics = _watched(router, "round_robin")
    router.attempt(await router.prepare(InferenceRequest.parse("response", b"", response_id="resp_1")))

    assert _counted(metrics) == []


async def test_a_shadow_that_reads_prompts_gets_them_under_a_rotation() -> None:
    """Where the second of two equal prompts should follow the first, it says so, and the rotation goes on."""
    router = a_router(a_pool(), strategy="round_robin")
    metrics = _watched(router, "kv_aware")
    decisions = []
    for _ in range(4):
        attempt = router.attempt(await router.prepare(_request()))
        decisions.append(attempt.decision)
        attempt.end(Outcome.OK)

    assert [decision.replica_id for decision in decisions] == ["a", "b", "a", "b"]
    assert {decision.prompt_tokens for decision in decisions} == {1000}
    (row,) = metrics.status()
    assert (row["decisions"], row["strategy"]) == (4, "round_robin")


async def test_a_shadow_that_reads_none_leaves_prompts_unread() -> None:
    router = a_router(a_pool(), strategy="round_robin")
    metrics = _watched(router, "round_robin")

    assert router.attempt(await router.prepare(_request())).decision.prompt_tokens == 0
    assert _counted(metrics) == [("round_robin", "round_robin", 1)]


async def test_another_strategy_in_force_is_counted_by_its_name() -> None:
    """And its shadow goes on as before."""
    router = a_router(a_pool())
    metrics = _watched(router, "round_robin", "kv_aware")
    router.attempt(await router.prepare(_request()))
    router.use_strategy("round_robin")
    router.attempt(await router.prepare(_request()))

    assert _counted(metrics) == [
        (shadow, strategy, 1) for strategy in ("kv_aware", "round_robin") for shadow in ("round_robin", "kv_aware")
    ]


def test_a_record_has_what_the_choice_was_made_from() -> None:
    """The costs are those before the choice: of a rotation the one whose turn it is has the least."""
    router = a_router(a_pool(), strategy="round_robin")
    router.watch(Onlookers(recorder=Recorder(lambda: SECRET)))
    record = _recorded(router, _request())

    assert record is not None
    assert [candidate.id for candidate in record.candidates] == ["a", "b"]
    assert record.costs[0].compared <= record.costs[1].compared
    assert (record.prompt_tokens, record.shadows) == (1000, {})
    assert all(candidate.prefill_s > 0 for candidate in record.candidates)


def test_nobody_looks_on_and_nothing_is_recorded() -> None:
    assert _recorded(a_router(a_pool()), _request()) is None


def test_a_strategy_that_cannot_tell_its_costs_still_chooses(caplog: pytest.LogCaptureFixture) -> None:
    """The choice is not recorded, which is counted, and told of once."""
    onlookers = Onlookers(recorder=Recorder(lambda: SECRET))
    prepared = a_router(a_pool()).prepare_now(_request())
    assert prepared is not None
    candidates = [Candidate("a"), Candidate("b")]
    with caplog.at_level(logging.ERROR):
        chosen = {onlookers.select(Mute(), prepared, RouteRequest(1), candidates).candidate.id for _ in range(3)}

    assert (chosen, onlookers.unrecorded, prepared.record) == ({"a"}, 3, None)
    assert len(caplog.records) == 1
