"""One page of many."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gateway.observe.shadow_page import ShadowTotals
from gateway.observe.truth_page import truth_page
from gateway.router.prediction_counts import PredictionCounts
from gateway.workers.merged_status import merged_replicas, merged_status


def replica(id_: str = "a", **fields: Any) -> dict[str, Any]:
    told = {"id": id_, "healthy": True, "draining": False, "inflight": 1, "decoding": 1, "waiting": 3.0}
    return told | {"events": {"state": "fresh", "trust": 1.0}} | fields


def test_own_counts_are_summed_and_reports_are_not() -> None:
    """What is in flight from each worker adds up; what the replica itself reports is told once."""
    (merged,) = merged_replicas([[replica()], [replica(inflight=4)]])

    assert (merged["inflight"], merged["decoding"], merged["waiting"]) == (5, 2, 3.0)


def test_the_word_of_the_one_that_follows_the_events_counts() -> None:
    """Not all workers do."""
    deaf = replica(events={"state": "off"}, owned_blocks={"l0": 0})
    late = replica(events={"state": "suspect", "trust": 0.5}, owned_blocks={"l0": 7})
    fresh = replica(owned_blocks={"l0": 9})

    assert merged_replicas([[deaf], [late], [fresh], [deaf]])[0]["owned_blocks"] == {"l0": 9}


def test_any_worker_may_know_a_replica_better() -> None:
    """Healthy if one reaches it; draining if one says so; listed if one has it, in order."""
    down = {"id": "b", "url": "http://b", "healthy": False, "fault": "ConnectError"}
    held = replica(draining=True, held_back=True)
    merged = merged_replicas([[held, down], [replica(held_back=False), replica("b")], [replica("c")]])

    assert [entry["id"] for entry in merged] == ["a", "b", "c"]
    assert [entry["healthy"] for entry in merged] == [True, True, True]
    assert merged[0]["draining"]
    assert merged[0]["held_back"]
    assert merged[1]["inflight"] == 1
    assert merged_replicas([[down]]) == [down]


def test_a_replica_is_drained_when_all_workers_are_done_with_it() -> None:
    """What runs there runs from any of them."""
    still, done = replica(draining=True, drained=False), replica(draining=True, drained=True)

    assert merged_replicas([[done], [still]])[0]["drained"] is False
    assert merged_replicas([[done], [done]])[0]["drained"] is True


def test_workers_that_differ_show_it() -> None:
    """Each strategy in force is named once."""
    pages: list[dict[str, Any]] = [
        {"version": "1", "ready": False, "strategy": "kv_aware", "models": {"m": "X"}, "replicas": [replica()]},
        {"version": "1", "ready": True, "strategy": "session", "models": {"n": "Y"}, "replicas": [replica()]},
        {"version": "1", "ready": True, "strategy": "kv_aware", "orders": {"version": 3}},
    ]
    merged = merged_status(pages)

    assert (merged["version"], merged["ready"], merged["strategy"]) == ("1", True, "kv_aware, session")
    assert merged["models"] == {"m": "X", "n": "Y"}
    assert merged["replicas"][0]["inflight"] == 2
    assert merged["orders"] == {"version": 3}


def test_no_page_at_all_is_a_page() -> None:
    """Workers are starting."""
    merged = merged_status([])

    assert (merged["ready"], merged["replicas"], merged["orders"], merged["discovery"]) == (False, [], {}, {})


def test_the_one_that_finds_replicas_no_more_is_shown() -> None:
    """Each worker looks them up itself."""
    well = {"how": "dns:vllm:8000", "age_s": 1.5, "fault": "", "failures": 1}
    failing = {"how": "dns:vllm:8000", "age_s": 40.0, "fault": "no answer", "failures": 12}

    assert merged_status([{"discovery": well}, {"discovery": failing}, {}])["discovery"] == failing | {"failures": 13}
    assert merged_status([{"discovery": {"how": "static"}}] * 2)["discovery"] == {"how": "static"}


def test_a_finding_that_several_workers_have_is_told_once() -> None:
    """As whoever has known of it for longest tells it; the oldest come first."""
    salt = {"name": "salt_dropped", "replica": "a", "since_s": 3.0}
    pages: list[dict[str, Any]] = [
        {"findings": [{**salt, "since_s": 1.0}]},
        {"findings": [salt, {"name": "salt_dropped", "replica": "b", "since_s": 9.0}]},
        {},
    ]

    assert [(row["replica"], row["since_s"]) for row in merged_status(pages)["findings"]] == [("b", 9.0), ("a", 3.0)]


def test_what_is_learned_of_speeds_is_told_by_who_saw_most() -> None:
    """Not lost among several workers."""
    pages: list[dict[str, Any]] = [{"speeds": {"samples": 3}}, {"speeds": {"samples": 9}}, {}]

    assert merged_status(pages)["speeds"] == {"samples": 9}


def test_what_shadows_would_have_done_is_told_of_all_workers_together() -> None:
    """Each worker asks its own."""
    pages: list[dict[str, Any]] = [{"shadows": [ShadowTotals(2, 1, 0.5).row("x", "kv_aware")]}, {"shadows": []}, {}]

    assert merged_status([*pages, *pages])["shadows"] == [ShadowTotals(4, 2, 1.0).row("x", "kv_aware")]
    assert merged_status([])["shadows"] == []


def test_what_became_of_predictions_is_told_of_all_workers_together() -> None:
    """Also where the one that knows most of the replica's events predicted nothing of it."""
    counts = PredictionCounts(Counter(usage=1), Counter(usage=300), predicted_tokens=Counter(usage=288))
    counts.actual_tokens["usage"], counts.over_tokens = 276, 12
    seen = replica(events={"state": "off"}, truth=truth_page(counts, None))
    truth = merged_replicas([[replica(truth={})], [seen], [seen]])[0]["truth"]

    assert (truth["requests"], truth["coverage"]["usage"], truth["accuracy"]["error"]) == ({"usage": 2}, 1.0, 0.04)
    assert merged_replicas([[replica(truth={})], [replica(truth={})]])[0]["truth"] == {}
