"""The queries of the dashboard, put to a real Prometheus that scrapes a fleet in trouble: all have data, and true."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadtest.workload import Workload
from tests.deploy.dashboard import Json, read, since_the_start, substituted, targets, variables
from tests.deploy.fleet_story import GATEWAYS, JOB, FleetStory, fleet_story
from tests.deploy.prometheus_house import Prometheus, Sample
from tests.deploy.query_rules import uses
from tests.end_to_end.shared_house import MODEL

#: What a gateway tells and the dashboard does not show: by why not.
LEFT_OUT = {
    "access_log_lines_dropped": "of the log, not of routing",
    "api_keys": "a setting; docs/keys.md",
    "api_keys_stale": "the same",
    "kv_events_decoded": "batches say it",
    "load_peer_inflight": "of other gateways, which tell it themselves",
    "load_peers": "members say it",
    "member_records_unreadable": "during upgrades only, where members that differ say it",
    "predictions": "in prompt tokens they weigh what they are worth",
    "replica_predictions": "the same",
    "redis_connections": "of no use while the breaker is shown",
    "settings_unknown": "told at the start, and by prefixway check",
    "shadow_failures": "the log tells of the first",
    "shared_index_locks_lost": "epochs by reason say it",
    "shared_index_refused": "commands that Redis refused hold these too",
    "stale_connections": "harmless: the request goes out on a new connection",
}
_WINDOW = "600s"  # holds all of it
_BUSY = 6  # requests at once
_TRIES = 20


class Answers:
    """What each panel shows, by panel and legend; a legend ``{{replica}}`` stands for a series each."""

    def __init__(self, samples: Mapping[tuple[str, str], Sequence[Sample]]) -> None:
        self.samples = samples

    def number(self, panel: str, legend: str) -> float:
        (sample,) = self.samples[panel, legend]
        return sample.value

    def by(self, label: str, panel: str, legend: str = "") -> dict[str, float]:
        samples = self.samples[panel, legend or f"{{{{{label}}}}}"]
        assert all(sample.labels.keys() == {label} for sample in samples)
        return {sample.labels[label]: sample.value for sample in samples}

    def empty(self) -> list[str]:
        """Queries without a number."""
        return [
            " / ".join(where)
            for where, samples in self.samples.items()
            if all(math.isnan(sample.value) for sample in samples)
        ]


async def _ask(dashboard: Json, prometheus: Prometheus, *, totals: bool = False) -> Answers:
    """All queries at one moment, with all values of every variable, as a dashboard begins.

    ``totals``: of what was counted since the start, where the dashboard shows how fast that grows.
    """
    values = {"__rate_interval": _WINDOW, "__range": _WINDOW}
    for name, variable in variables(dashboard).items():
        if variable["type"] == "query":
            values[name] = variable["allValue"]
    for _ in range(_TRIES):
        now_s = await prometheus.number("time()")
        samples = {}
        for target in targets(dashboard):
            expression = substituted(since_the_start(target.expression) if totals else target.expression, values)
            samples[target.panel, target.legend] = await prometheus.query(expression, now_s)
        if await prometheus.has_all(now_s):
            return Answers(samples)
    raise AssertionError("some gateway's page came late again and again")


async def test_the_dashboard_tells_the_truth() -> None:
    """Of three gateways that tell of the same replicas, under the demo's load and then in trouble."""
    dashboard = read()
    async with fleet_story() as story:
        await story.play(Workload(think_s=(0.1, 0.6)), seed=1)
        await story.settle()
        await story.all_told()
        calm = await _ask(dashboard, story.prometheus, totals=True)
        _nothing_is_doubled(calm, story)
        _hits_are_those_of_the_replicas(calm, story)
        async with story.under_way(_BUSY):
            _load_is_not_doubled(await _ask(dashboard, story.prometheus), story)

        await story.untold()
        await story.unlucky()
        await story.unwanted()
        await story.found_wrong()
        await story.settle()
        troubled = await _ask(dashboard, story.prometheus)
        assert "\n".join(troubled.empty()) == ""
        _everything_is_shown_or_left_out(dashboard, [gateway.running.metrics() for gateway in story.gateways])
        await _variables_offer_what_there_is(dashboard, story.prometheus)
        _trouble_is_shown(await _ask(dashboard, story.prometheus, totals=True), story)

        await story.remove("c")
        here = {story.id_of(name) for name in "ab"}
        await story.prometheus.until(
            "prefixway_replica_up", lambda found: {sample.labels["replica"] for sample in found} == here
        )
        rest = await _ask(dashboard, story.prometheus)
        assert rest.number("Replicas", "known") == len(here)
        for column in ("Healthy", "KV usage", "Trust", "Blocks in GPU"):
            assert rest.by("replica", "Replicas now", column).keys() == here


def _everything_is_shown_or_left_out(dashboard: Json, pages: Sequence[str]) -> None:
    """No query asks for what nobody tells, and the model is chosen wherever there is one."""
    told: dict[str, set[str]] = {}  # labels by family
    for family in (family for page in pages for family in text_string_to_metric_families(page)):
        if not family.name.endswith("_created"):
            labels = told.setdefault(family.name, set())
            labels.update(*(sample.labels for sample in family.samples))
    asked: dict[str, set[bool]] = {}  # whether for one model, by family
    for target in targets(dashboard):
        for use in uses(substituted(target.expression, {"__rate_interval": "1m", "__range": "1m"})):
            name = use.metric.removesuffix("_total").removesuffix("_bucket")
            asked.setdefault(name, set()).add("model_name" in use.labels)

    assert asked.keys() - told.keys() == set()
    assert told.keys() - asked.keys() == {f"prefixway_{name}" for name in LEFT_OUT}
    assert {name: {"model_name" in told[name]} for name in asked} == asked


async def _variables_offer_what_there_is(dashboard: Json, prometheus: Prometheus) -> None:
    offered = {}
    for name, variable in variables(dashboard).items():
        if variable["type"] == "query":
            series, _, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            series = substituted(series, dict.fromkeys(("namespace", "job"), ".*"))
            offered[name] = await prometheus.label_values(series, label)

    assert offered.pop("namespace") == []  # a label of Kubernetes
    assert offered.pop("job") == [JOB]
    assert len(offered.pop("instance")) == GATEWAYS
    assert offered == {"model_name": ["other", MODEL]}


def _nothing_is_doubled(shown: Answers, story: FleetStory) -> None:
    ids = {story.id_of(name): replica for name, replica in story.replicas.items()}
    served = Counter(sample.replica for sample in story.samples)

    assert not any(sample.error for sample in story.samples)
    assert [shown.number("Replicas", legend) for legend in ("healthy", "known")] == [3, 3]
    assert shown.by("replica", "Replicas now", "Healthy") == dict.fromkeys(ids, 1)
    assert shown.by("replica", "Trust") == dict.fromkeys(ids, 1)
    assert shown.by("replica", "Replicas now", "Blocks in GPU") == {
        id_: len(replica.cache.resident_prefixes()) for id_, replica in ids.items()
    }
    assert shown.by("replica", "Requests by replica") == served
    assert shown.by("outcome", "Requests by outcome") == {"ok": story.sent}
    assert shown.by("replica", "Prompt tokens by replica") == {
        id_: replica.scheduler.stats.prompt_tokens for id_, replica in ids.items()
    }
    assert shown.by("replica", "Batches of events") == {
        id_: replica.publisher.next_sequence for id_, replica in ids.items()
    }
    assert shown.number("Imbalance: most over mean", "requests") == pytest.approx(
        max(served.values()) / (story.sent / len(ids))
    )
    assert [shown.number("Index in Redis", legend) for legend in ("there", "written")] == [3, 3]
    assert shown.by("kind", "Processes on this Redis") == {"gateway": GATEWAYS}
    assert list(shown.by("instance", "Answers in time").values()) == [1] * GATEWAYS
    assert 0 < shown.number("Shadows that would choose otherwise", "{{shadow}}") < 1
    assert shown.number("Found wrong", "") == 0
    assert shown.number("Failed", "") == 0


def _load_is_not_doubled(shown: Answers, story: FleetStory) -> None:
    ids = {story.id_of(name): replica for name, replica in story.replicas.items()}
    running = {id_: replica.scheduler.running for id_, replica in ids.items()}
    used = {id_: replica.cache.used_blocks / replica.cache.capacity_blocks for id_, replica in ids.items()}

    assert sum(running.values()) == _BUSY
    assert shown.by("replica", "Requests in flight") == running
    assert shown.by("replica", "Replicas now", "Running") == running
    assert shown.by("replica", "KV usage") == pytest.approx(used, rel=0.2)
    assert shown.number("Admission", "in flight") == _BUSY


def _hits_are_those_of_the_replicas(shown: Answers, story: FleetStory) -> None:
    """As exact as coverage is: what could not be verified may have been found in full, or not at all."""
    stats = [replica.scheduler.stats for replica in story.replicas.values()]
    truth = sum(row.hit_tokens for row in stats) / sum(row.prompt_tokens for row in stats)
    for panel in ("Prompt tokens from caches", "Cached share of prompt tokens"):
        actual, predicted = shown.number(panel, "actual"), shown.number(panel, "predicted")
        coverage = shown.number("Prompt tokens from caches", "coverage")
        assert coverage > 0.3
        assert actual == pytest.approx(truth, abs=1 - coverage + 1e-9)
        assert predicted == pytest.approx(actual, abs=0.05)
    covered = shown.by("source", "Coverage: prompt tokens by how they were verified")
    assert sum(covered.values()) == pytest.approx(1)
    assert 1 - covered["unverified"] == pytest.approx(coverage)


def _trouble_is_shown(shown: Answers, story: FleetStory) -> None:
    up = shown.by("replica", "Replicas now", "Healthy")
    assert up == {story.id_of("a"): 1, story.id_of("b"): 1, story.id_of("c"): 0}
    assert [shown.number("Replicas", legend) for legend in ("healthy", "known")] == [2, 3]
    assert all(0 <= trust <= 1 for trust in shown.by("replica", "Trust").values())
    errors, outcomes = (
        shown.by("code", "Errors of the gateway's own, by code"),
        shown.by("outcome", "Requests by outcome"),
    )
    assert {code: errors[code] for code in story.refused} == story.refused
    assert sum(outcomes.values()) == story.sent
    assert outcomes.keys() >= {"ok", "client_gone", "cut_off", "refused"}
    assert shown.number("Breaker and refusals", "breaker opened") > 0
    assert shown.number("Attempts and retries", "retries") > 0
    assert shown.by("replica", "Restarts").keys() == {story.id_of("a")}
    assert 0 < shown.number("Failed", "") < 0.5
