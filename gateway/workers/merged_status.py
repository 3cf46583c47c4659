"""One /replicas and one /status of several workers'. Pure: it takes pages that were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.observe.shadow_page import merged_shadows
from gateway.observe.speeds_page import merged_speeds
from gateway.observe.truth_page import merged_truth

Page = Mapping[str, Any]

_SUMMED = ("inflight", "decoding")  # what each worker counts of its own
_TRUE_FOR_ANY = ("healthy", "held_back", "draining", "stalled")
_TRUE_FOR_ALL = ("drained",)


def merged_replicas(pages: Iterable[Sequence[Page]]) -> list[dict[str, Any]]:
    """Each replica once, in the order of their first appearance.

    Its own counts are summed over the workers; it is healthy, held back, draining or stalled if any worker says so,
    drained if all do; what became of predictions is of those of all workers; the rest is told by the worker whose word
    on its events is best, since not all of them may follow the events.
    """
    told: dict[str, list[Page]] = {}
    for page in pages:
        for replica in page:
            told.setdefault(str(replica["id"]), []).append(replica)
    return [_one_replica(entries) for entries in told.values()]


def merged_status(pages: Sequence[Page]) -> dict[str, Any]:
    """What the workers say together. ``strategy`` names all that are in force, should they differ."""
    return {
        "version": ", ".join(_distinct(pages, "version")),
        "ready": any(page.get("ready") for page in pages),
        "strategy": ", ".join(_distinct(pages, "strategy")),
        "models": {name: kind for page in pages for name, kind in page.get("models", {}).items()},
        "replicas": merged_replicas(page.get("replicas", ()) for page in pages),
        "discovery": _merged_discovery([page["discovery"] for page in pages if "discovery" in page]),
        "findings": _merged_findings(pages),
        "speeds": merged_speeds(page["speeds"] for page in pages if "speeds" in page),
        "shadows": merged_shadows(page.get("shadows", ()) for page in pages),
        "orders": next((page["orders"] for page in pages if "orders" in page), {}),
    }


def _merged_discovery(told: Sequence[Page]) -> Page:
    """As the worker has it whose list is the oldest; look-ups that failed are those of all workers."""
    if not told:
        return {}
    oldest = max(told, key=lambda page: float(page.get("age_s", 0.0)))
    failures = {"failures": sum(page.get("failures", 0) for page in told)} if "failures" in oldest else {}
    return {**oldest, **failures}


def _merged_findings(pages: Iterable[Page]) -> list[Page]:
    """Each once, as told by who has known of it for longest."""
    told: dict[tuple[str, str], Page] = {}
    for finding in (finding for page in pages for finding in page.get("findings", ())):
        place = str(finding["name"]), str(finding["replica"])
        if place not in told or finding["since_s"] > told[place]["since_s"]:
            told[place] = finding
    return sorted(told.values(), key=lambda finding: -float(finding["since_s"]))


def _one_replica(entries: Sequence[Page]) -> dict[str, Any]:
    best: Page = max(entries, key=_knowledge)
    merged = dict(best)
    for name in _SUMMED:
        if name in merged:
            merged[name] = sum(entry.get(name, 0) for entry in entries)
    for name in _TRUE_FOR_ANY:
        if name in merged:
            merged[name] = any(entry.get(name) for entry in entries)
    for name in _TRUE_FOR_ALL:
        if name in merged:
            merged[name] = all(entry.get(name) for entry in entries)
    if any("truth" in entry for entry in entries):
        merged["truth"] = merged_truth(entry.get("truth", {}) for entry in entries)
    return merged


def _knowledge(entry: Page) -> tuple[bool, bool, float]:
    """How much a worker knows of a replica, to compare."""
    events = entry.get("events", {})
    return bool(entry.get("healthy")), events.get("state", "off") != "off", events.get("trust", 0.0)


def _distinct(pages: Iterable[Page], name: str) -> list[str]:
    return list(dict.fromkeys(str(page[name]) for page in pages if name in page))
