"""The dashboard as a file: whole, filtered by its variables, and with queries that hold for several gateways."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from scripts.dashboard.__main__ import text
from tests.deploy.dashboard import FILE, Json, Target, panels, read, substituted, targets, variables
from tests.deploy.query_rules import Use, faults, uses

_ANY = dict.fromkeys(("namespace", "job", "instance", "model_name"), ".*")
_DURATIONS = {"__rate_interval": "1m", "__range": "1h"}
_EVERYWHERE = {"namespace", "job", "instance"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
DASHBOARD = read()


def _uses(expression: str) -> list[Use]:
    return uses(substituted(expression, _ANY | _DURATIONS))


def _kind(metric: str) -> str:
    """By its name: that the names are right, the other test finds out."""
    return "histogram" if metric.endswith("_bucket") else "counter" if metric.endswith("_total") else "gauge"


def test_the_file_is_current() -> None:
    """`python -m scripts.dashboard` writes it."""
    assert FILE.read_text() == text()


def test_it_can_be_provisioned_and_linked_to() -> None:
    """No id of one Grafana, a uid that stays, and panels that are told apart."""
    ids = Counter(panel["id"] for panel in panels(DASHBOARD))

    assert (DASHBOARD["id"], DASHBOARD["uid"]) == (None, "prefixway-routing")
    assert max(ids.values()) == 1


def test_no_panel_covers_another() -> None:
    """And none is wider than the page."""
    places = [panel["gridPos"] for panel in panels(DASHBOARD)]

    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert [pair for pair in combinations(places, 2) if _overlap(*pair)] == []


def _overlap(one: Json, other: Json) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h"))
    )


def test_every_panel_says_what_it_shows_of_the_chosen_data_source() -> None:
    """No Grafana's own data source is named anywhere, and each row begins with what is good to see."""
    shown = [panel for panel in panels(DASHBOARD) if panel["type"] not in ("row", "text")]
    kinds = [panel["type"] for panel in DASHBOARD["panels"]]
    asking = [*shown, *(target for panel in shown for target in panel["targets"])]
    asking += [variable for variable in variables(DASHBOARD).values() if variable["type"] == "query"]

    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in shown)
    assert [one["datasource"] for one in asking] == [SOURCE] * len(asking)
    assert [kinds[at + 1] for at, kind in enumerate(kinds) if kind == "row"] == ["text"] * kinds.count("row")


def test_a_share_of_nothing_is_told_in_words() -> None:
    """Where nobody asks it is NaN, or missing; neither looks well to somebody who has just begun."""
    shares = [
        panel
        for panel in panels(DASHBOARD)
        if panel["type"] == "stat" and any(" / " in target["expr"] for target in panel["targets"])
    ]
    told = [panel["fieldConfig"]["defaults"] for panel in shares]

    assert len(told) == 2
    assert {each["noValue"] for each in told} == {"no requests"}
    assert [each["mappings"][0]["options"]["match"] for each in told] == ["null+nan"] * 2


def test_queries_have_letters_and_names_of_their_own() -> None:
    """Else the second of two would take the place of the first."""
    names = Counter((target.panel, target.legend) for target in targets(DASHBOARD))

    assert max(names.values()) == 1
    for panel in panels(DASHBOARD):
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("target", targets(DASHBOARD), ids=str)
def test_a_query_neither_doubles_nor_hides(target: Target) -> None:
    """What several gateways tell of the same thing is one value, what each counts is added up; and variables hold."""
    for use in _uses(target.expression):
        assert list(faults(use, _kind(use.metric))) == []
        assert use.labels >= _EVERYWHERE


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sum by (replica) (prefixway_replica_up)", "sum puts several gateways' together"),
        ("sum by (replica) (prefixway_replica_trust)", "sum puts several gateways' together"),
        ("prefixway_replica_kv_usage", "nothing puts several gateways' together"),
        ("max (prefixway_replica_inflight)", "max puts several gateways' together"),
        ("sum (rate(prefixway_kv_event_gaps_total[1m]))", "sum puts several gateways' together"),
        ("max (rate(prefixway_requests_total[1m]))", "max puts several gateways' together"),
        ("max (avg by (replica) (rate(prefixway_requests_total[1m])))", "avg puts several gateways' together"),
        ("sum (prefixway_requests_total)", "a counter within no function"),
        ("sum (rate(prefixway_admission_inflight[1m]))", "a gauge within rate"),
        ("histogram_quantile(0.5, sum (rate(prefixway_ttft_seconds_bucket[1m])))", "without le"),
    ],
)
def test_the_rules_refuse_what_would_double(query: str, fault: str) -> None:
    """Each fault that they are there for."""
    (use,) = uses(query)

    assert [told for told in faults(use, _kind(use.metric)) if fault in told]


def test_the_rules_pass_what_is_right() -> None:
    """One value of what all see, the sum of what each counts."""
    query = "sum(max by (replica) (prefixway_replica_up)) / sum by (le) (rate(prefixway_ttft_seconds_bucket[1m]))"

    assert [told for use in uses(query) for told in faults(use, _kind(use.metric))] == []
