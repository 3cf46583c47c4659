"""Symptoms: what is to be seen of a replica without asking it. Pure, but for the state it is shown.

A symptom counts once it has lasted: each has a time for that. Some name their cause for sure; others are only
suspicions, which make somebody check that replica at once, and are told of where a check was not to be had or named
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gateway.check.holding_check import overfull
from gateway.check.knowledge import Knowledge
from gateway.check.state_check import block_sizes
from gateway.fleet.replica import Replica
from gateway.fleet.server import Server
from gateway.kv.evidence import Evidence
from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import Tier
from gateway.kv.trust import LATE_S, FeedState

_STARTING_S = 10.0  # what a replica may take to be seen as a whole once it answers
_DOWN_S = 10.0  # longer than a restart in place
_SILENT_S = 15.0
_LATE_FOR_S = 3.0
_UNREPORTED_S = 7.0
_A_MOMENT_S = 2.0
_UNEXPLAINED_S = 8.0  # in which a check finds out more
_NO_BLINK_S = 1.0
_UNFOUND_S = 30.0
_AT_ONCE = 0.0  # what requests showed is of several of them, or has waited for events long enough
_OFF_BY = 0.01, 8  # a share and a number of blocks that two counts may differ


class Symptom(NamedTuple):
    """``lasts_s``: how long it must be seen before it counts. ``suspicious_s``: and before a check may find out more;
    ``inf``: none can.
    """

    name: str
    replica_id: str
    detail: str
    lasts_s: float
    suspicious_s: float = float("inf")


def of_discovery(age_s: float, interval_s: float, fault: str) -> Iterator[Symptom]:
    """Of the gateway as a whole. ``age_s``: how old the list of replicas is, which should be new every
    ``interval_s``. ``fault``: why the last look-up failed.
    """
    if age_s > interval_s + _UNFOUND_S:
        yield Symptom("discovery_stale", "", f"for {age_s:.0f} s: {fault or 'no answer'}", 0.0)


def of_server(server: Server) -> Iterator[Symptom]:
    """Whether it answers at all, and what it serves. One that is held back and never answered is starting."""
    if server.held_back and not server.was_healthy:
        return
    if server.asleep:
        yield Symptom("asleep", server.id, "as its metrics say", _A_MOMENT_S)
    elif not server.healthy:
        yield Symptom("unreachable", server.id, server.fault, _DOWN_S)
    elif not server.cards:
        yield Symptom("no_model", server.id, "/v1/models names none", _STARTING_S)


def of_replica(replica: Replica, knowledge: Knowledge) -> Iterator[Symptom]:
    """What its probes and its feed show. For replicas of healthy servers."""
    report, id_ = replica.report, replica.id
    if replica.reported_s is None or report.running is None or report.prefix_queries is None:
        yield Symptom("metrics_unknown", id_, "names are missing on /metrics", _STARTING_S)
    elif (silent_s := knowledge.clock() - replica.reported_s) > _UNREPORTED_S:
        yield Symptom("metrics_unknown", id_, f"nothing of the engine on /metrics for {silent_s:.0f} s", 0.0)
    if report.prefix_caching is False:
        yield Symptom("prefix_caching_off", id_, "its metrics say so", 0.0)
    stats = knowledge.stats(replica)
    if stats is not None:
        yield from _of_feed(replica, stats, knowledge)
    elif knowledge.events_wanted and not knowledge.events.has_events(replica.key) and replica.reported_s is not None:
        yield Symptom("events_off", id_, "neither it nor a setting says where they are", _STARTING_S)


def _of_feed(replica: Replica, stats: FeedStats, knowledge: Knowledge) -> Iterator[Symptom]:
    id_, source = replica.id, knowledge.events.followable.get(replica.key)
    if source is not None and source.replay_endpoint is None:
        yield Symptom("replay_absent", id_, "it names no replay port", _STARTING_S)
    if stats.state is FeedState.BLIND:
        where = source.endpoint if source is not None else "its events"
        yield Symptom("events_silent", id_, f"no connection to {where}", _SILENT_S, _NO_BLINK_S)
    if stats.late_s > LATE_S:
        detail = f"{stats.late_s:.1f} s later than they usually come"
        yield Symptom("events_late", id_, detail, _LATE_FOR_S)
    if (sizes := block_sizes(replica, knowledge)).finding is not None:
        yield Symptom("block_size_differs", id_, sizes.detail, _A_MOMENT_S)
    if detail := overfull(replica, knowledge):
        yield Symptom("removals_lost", id_, detail, _UNEXPLAINED_S, _NO_BLINK_S)
    if detail := _lost(replica, knowledge):
        yield Symptom("index_lost", id_, detail, _A_MOMENT_S)


def _lost(replica: Replica, knowledge: Knowledge) -> str:
    """How far the index of this process lacks what the events told; "": it does not."""
    told = knowledge.events.indexer.owned_blocks(replica.key, Tier.L0)
    held = knowledge.memory.owned(replica.key, Tier.L0)
    share, blocks = _OFF_BY
    return f"{held} of {told} blocks" if told - held > told * share + blocks else ""


def of_tokenizer(model: str, kind: str) -> Iterator[Symptom]:
    """``kind``: what encodes the prompts of a base model, by the name of its class."""
    if kind == "RemoteEncoder":
        yield Symptom("tokenizer_remote", "", f"of {model}", _STARTING_S)
    elif kind == "AbsentEncoder":
        yield Symptom("tokenizer_absent", "", f"of {model}", _STARTING_S)


# What requests showed

_FEW = 3.0  # requests; fewer are chance
_SOME = 5.0
_MANY = 12.0
_ENOUGH = 24.0  # less than what is left of one replica's evidence when it has just been halved
_LEAST_OVER_TOKENS = 64.0


def of_evidence(replica: Replica, evidence: Evidence, stats: FeedStats | None) -> Iterator[Symptom]:
    """``stats``: of its feed; ``None``: it is followed elsewhere, or not at all.

    More is found than predicted only by an error where events tell of all tiers that requests may be served from.
    """
    full_story = stats is not None and stats.complete and not stats.block_sizes.keys() - {Tier.L0}
    is_doubted = stats is not None and stats.doubt.word == "over_predicted"
    id_, requests = replica.id, evidence.requests
    if evidence.miscounted >= _FEW and evidence.miscounted > 0.2 * requests:
        detail = f"{_share(evidence.miscounted, requests)} of requests had another number of prompt tokens there"
        yield _suspicion("template_differs", id_, detail)
    yield from _unconfirmed(id_, evidence)
    if evidence.over_tokens >= _LEAST_OVER_TOKENS and evidence.over_share > 0.03:
        detail = f"{_share(evidence.over_tokens, evidence.predicted_tokens)} of the tokens predicted were not there"
        lasts_s = _UNEXPLAINED_S if is_doubted else float("inf")
        yield Symptom("over_predicted", id_, detail, lasts_s, _AT_ONCE)
    if full_story and evidence.compared >= _MANY and evidence.under_tokens > 0.25 * evidence.prompt_tokens:
        detail = f"{_share(evidence.under_tokens, evidence.prompt_tokens)} of prompt tokens were there unpredicted"
        yield _suspicion("under_predicted", id_, detail)
    no_details = evidence.unverified["no_details"]
    if no_details >= _SOME and evidence.compared < 0.5 * no_details:
        detail = f"usage of {_share(no_details, requests)} of requests does not tell"
        lasts_s = _UNEXPLAINED_S if evidence.compared < 0.05 * no_details else float("inf")
        yield Symptom("details_off", id_, detail, lasts_s, _AT_ONCE)


def _unconfirmed(replica_id: str, evidence: Evidence) -> Iterator[Symptom]:
    asked = evidence.confirmed + evidence.unconfirmed
    if evidence.unconfirmed < 1:
        return
    kinds = ", ".join(sorted(kind for kind, count in evidence.unconfirmed_kinds.items() if count >= 0.5))
    detail = f"{_share(evidence.unconfirmed, asked)} of new prompts, of these kinds: {kinds}"
    is_sure = evidence.unconfirmed >= _FEW and evidence.unconfirmed > 0.3 * asked
    yield Symptom("unconfirmed", replica_id, detail, _UNEXPLAINED_S if is_sure else float("inf"), _AT_ONCE)


def of_coverage(evidence: list[Evidence]) -> Iterator[Symptom]:
    """Of the gateway as a whole: whether enough of what it does is verified to say that it works.

    Where no events are followed there is nothing to verify, and usage would not help.
    """
    requests = sum(one.requests - one.unverified["no_events"] for one in evidence)
    verified = sum(one.compared + one.confirmed for one in evidence)
    if requests >= _ENOUGH and verified < 0.02 * requests:
        yield Symptom("coverage_low", "", f"{_share(verified, requests)} of requests are verified", _STARTING_S)


def _suspicion(name: str, replica_id: str, detail: str) -> Symptom:
    return Symptom(name, replica_id, detail, _UNEXPLAINED_S, _AT_ONCE)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
