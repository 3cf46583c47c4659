"""The truth page: what became of predictions of a replica, as JSON; and one such page of several gateways'.

An accuracy is never shown without its coverage, the share of prompt tokens that it holds for. Both are worked out here
alone, from counts that are on the page, too: so pages can be added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gateway.kv.evidence import Evidence
from gateway.router.prediction_counts import COUNTERS, UNVERIFIED, USAGE, PredictionCounts

_SOURCES = (USAGE, COUNTERS, UNVERIFIED)


def truth_page(counts: PredictionCounts, evidence: Evidence | None) -> dict[str, object]:
    """Of one replica. ``evidence``: of its engine process, if a request ended there."""
    page: dict[str, object] = {
        "requests": dict(counts.by_source),
        "prompt_tokens": dict(counts.prompt_tokens),
        "unverified": dict(counts.unverified),
        "miscounted": counts.miscounted,
        "confirmed": counts.confirmed,
        "unconfirmed": dict(counts.unconfirmed),
    }
    if counts.by_source[USAGE] or counts.by_source[COUNTERS]:
        page["coverage"] = {source: round(counts.coverage(source), 4) for source in _SOURCES}
        page["accuracy"] = _accuracy(counts)
    if counts.estimated_tokens:
        page["l2_estimate"] = _l2_estimate(counts)
    if evidence is not None:
        page["lately"] = _lately(evidence)
    return page


def merged_truth(pages: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    """What several gateways predicted of one replica, together; pages of those that predicted nothing are empty."""
    told = [page for page in pages if page]
    if not told:
        return {}
    counts, evidence = PredictionCounts(), Evidence()
    for page in told:
        counts.add(_counts_of(page))
        evidence.add(_evidence_of(page.get("lately", {})))
    return truth_page(counts, evidence if any("lately" in page for page in told) else None)


def _accuracy(counts: PredictionCounts) -> dict[str, object]:
    """Of what was verified. ``error``: tokens predicted wrongly, either way, over prompt tokens; by usage alone."""
    wrong = counts.over_tokens + counts.under
    compared = counts.prompt_tokens[USAGE]
    return {
        "predicted_tokens": dict(counts.predicted_tokens),
        "actual_tokens": dict(counts.actual_tokens),
        "over_tokens": counts.over_tokens,
        "over_tokens_evicted": counts.evicted_tokens,
        "under_tokens": counts.under,
        "under_tokens_from": dict(counts.under_tokens),
        "error": round(wrong / compared, 6) if compared else None,
    }


def _l2_estimate(counts: PredictionCounts) -> dict[str, object]:
    """How far the estimate held: what was found of what was estimated, where usage told."""
    return {
        "tokens": counts.estimated_tokens,
        "compared_tokens": counts.estimated_compared_tokens,
        "found_tokens": counts.estimated_found_tokens,
    }


def _lately(evidence: Evidence) -> dict[str, object]:
    """What tells of the recent past: of about the last 64 requests of each gateway at most."""
    return {
        "requests": round(evidence.requests, 1),
        "compared": round(evidence.compared, 1),
        "predicted_tokens": round(evidence.predicted_tokens, 1),
        "over_tokens": round(evidence.over_tokens, 1),
        "over_tokens_evicted": round(evidence.evicted_tokens, 1),
        "over_share": round(evidence.over_share, 4),
        "miscounted": round(evidence.miscounted, 1),
        "confirmed": round(evidence.confirmed, 1),
        "unconfirmed": {kind: round(count, 1) for kind, count in evidence.unconfirmed_kinds.items()},
    }


def _counts_of(page: Mapping[str, Any]) -> PredictionCounts:
    """What :func:`truth_page` made a page of. Without an accuracy nothing was verified, so there is none to count."""
    accuracy, estimate = page.get("accuracy", {}), page.get("l2_estimate", {})
    return PredictionCounts(
        by_source=Counter(page["requests"]),
        prompt_tokens=Counter(page["prompt_tokens"]),
        unverified=Counter(page["unverified"]),
        predicted_tokens=Counter(accuracy.get("predicted_tokens", {})),
        actual_tokens=Counter(accuracy.get("actual_tokens", {})),
        over_tokens=accuracy.get("over_tokens", 0),
        evicted_tokens=accuracy.get("over_tokens_evicted", 0),
        under=accuracy.get("under_tokens", 0),
        under_tokens=Counter(accuracy.get("under_tokens_from", {})),
        miscounted=page["miscounted"],
        confirmed=page["confirmed"],
        unconfirmed=Counter(page["unconfirmed"]),
        estimated_tokens=estimate.get("tokens", 0),
        estimated_compared_tokens=estimate.get("compared_tokens", 0),
        estimated_found_tokens=estimate.get("found_tokens", 0),
    )


def _evidence_of(lately: Mapping[str, Any]) -> Evidence:
    """As far as it is shown."""
    return Evidence(
        requests=lately.get("requests", 0.0),
        compared=lately.get("compared", 0.0),
        predicted_tokens=lately.get("predicted_tokens", 0.0),
        over_tokens=lately.get("over_tokens", 0.0),
        evicted_tokens=lately.get("over_tokens_evicted", 0.0),
        miscounted=lately.get("miscounted", 0.0),
        confirmed=lately.get("confirmed", 0.0),
        unconfirmed_kinds=Counter(lately.get("unconfirmed", {})),
    )
