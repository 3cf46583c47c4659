"""Explanation: what would be decided for a request at this moment, and every number that it follows from.

Counts and seconds only: no prompt text, no token ids, no hashes, and of a cache salt only that there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.errors import NoReplica
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.server import Server
from gateway.kv.feed_stats import FeedStats
from gateway.kv.tiers import TierTokens
from gateway.router.decision import Decision
from gateway.router.prepared import Prepared
from router_strategies import Candidate, Cost, RouteRequest

_NOTHING = TierTokens()


class EventKnowledge(Protocol):
    """What the followers of event streams tell of a replica; ``None``: its events are not followed."""

    def stats(self, key: ReplicaKey) -> FeedStats | None: ...


class Excluded(NamedTuple):
    """A replica that could not be chosen, and why not, in a word or two. ``fault``: of its server, for people."""

    replica_id: str
    why: str
    fault: str


class Weighed(NamedTuple):
    """A replica that could be chosen. ``cost``: what the strategy compares; ``None``: it does not choose by numbers."""

    replica: Replica
    candidate: Candidate
    cost: Cost | None


class Explanation:
    """Filled by the router. ``decision`` stays ``None`` where nobody could be chosen; ``error`` says why."""

    def __init__(self, prepared: Prepared, events: EventKnowledge, excluded: Sequence[Excluded], now: float) -> None:
        """``excluded``: of all servers, those that are no candidates, unless nothing better is left. ``now``: when."""
        self.prepared = prepared
        self.decision: Decision | None = None
        self.error: NoReplica | None = None
        self.candidates: Sequence[Weighed] = ()
        self.utilisation = 0.0
        self._events = events
        self._excluded = excluded
        self._now = now

    @property
    def excluded(self) -> list[Excluded]:
        """Those that could not be chosen: what is wrong with a candidate did not keep it from being one."""
        chosen_among = {weighed.replica.id for weighed in self.candidates}
        return [excluded for excluded in self._excluded if excluded.replica_id not in chosen_among]

    @property
    def ties(self) -> list[str]:
        """The ids of those that cost as little as the chosen one, itself among them."""
        costs = [weighed.cost.compared for weighed in self.candidates if weighed.cost is not None]
        least = min(costs, default=None)
        return [weighed.replica.id for weighed in self.candidates if weighed.cost and weighed.cost.compared == least]

    def weighed(
        self,
        replicas: Sequence[Replica],
        candidates: Sequence[Candidate],
        costs: Sequence[Cost],
        facts: RouteRequest,
    ) -> None:
        """These were compared, by ``costs`` if there are any."""
        each: Sequence[Cost | None] = costs or [None] * len(candidates)
        self.candidates = [Weighed(*row) for row in zip(replicas, candidates, each)]
        self.utilisation = facts.utilisation

    def json(self) -> dict[str, object]:
        """All of it. Seconds are rounded to microseconds."""
        return {
            "request": self._request(),
            "prompt": self._prompt(),
            "strategy": self.prepared.strategy,
            "utilisation": round(self.utilisation, 4),
            "candidates": [self._candidate(weighed) for weighed in self.candidates],
            "excluded": [{"replica": each.replica_id, "why": each.why, "fault": each.fault} for each in self.excluded],
            "choice": None if self.decision is None else self._choice(self.decision),
            "error": None if self.error is None else self.error.fields(detailed=True),
        }

    def _request(self) -> dict[str, object]:
        prepared, request = self.prepared, self.prepared.request
        return {
            "route": request.route,
            "model": prepared.served.name,
            "alias": prepared.alias,
            "namespace": prepared.served.namespace,
            "lora": prepared.served.lora,
            "salted": bool(request.cache_salt),
            "stream": request.stream,
            "reads_cache": request.reads_cache,
            "incomparable": request.incomparable,
            "kept_by": prepared.pinned,
        }

    def _prompt(self) -> dict[str, object]:
        """``matchable``: the blocks that a cache can spare, without the one that holds the last token. ``complete``
        is false where only the beginning of the prompt is known. ``l2_estimate``: tokens from the first on that most
        likely lie in shared storage, worth loading or not.
        """
        prepared = self.prepared
        return {
            "tokens": prepared.prompt.count,
            "complete": prepared.prompt.complete,
            "reason": prepared.prompt.reason,
            "planned_tokens": prepared.work_tokens,
            "blocks": {str(size): len(chain) for size, chain in sorted(prepared.chains.items())},
            "matchable": {str(size): len(chain) for size, chain in sorted(prepared.matchable.items())},
            "index_reason": prepared.index_reason,
            "l2_estimate": prepared.l2_estimate,
            "took_s": {name: round(seconds, 6) for name, seconds in prepared.stages._asdict().items()},
        }

    def _candidate(self, weighed: Weighed) -> dict[str, object]:
        replica, seen, cost = weighed
        stats = self._events.stats(replica.key)
        return {
            "replica": replica.id,
            "confirmed": known_tiers(self.prepared.confirmed.get(replica.key, _NOTHING)),
            "expected_tokens": seen.expected_tokens,
            "l2_estimate": seen.l2_estimate,
            "trust": round(seen.trust, 4),
            "trust_reason": "events are not followed" if stats is None else stats.trust_reason,
            "prefill_s": round(seen.prefill_s, 6),
            "promised_s": round(seen.promised_s, 6),
            "memory": {
                "used_blocks": round(seen.kv_blocks_used, 1),
                "needed_blocks": round(seen.kv_blocks_needed, 1),
                "capacity_blocks": seen.kv_blocks_capacity,
            },
            "inflight": seen.inflight,
            "inflight_tokens": seen.inflight_tokens,
            "decoding": seen.decoding,
            "sharing": seen.sharing,
            "reported": {"waiting": seen.waiting, "running": seen.running, "kv_usage": seen.kv_usage},
            "reported_age_s": round(seen.reported_age_s, 3),
            "speed": seen.speed,
            "obstacle": replica.server.obstacle(self._now),
            "cost": [] if cost is None else [round(number, 6) for number in cost.compared],
            "parts": {} if cost is None else {name: round(number, 6) for name, number in cost.parts.items()},
        }

    def _choice(self, decision: Decision) -> dict[str, object]:
        return {
            "replica": decision.replica_id,
            "reason": decision.reasons,
            "matched": decision.matched,
            "expected_tokens": decision.expected_tokens,
            "l2_estimate": decision.l2_estimate,
            "uncached_tokens": decision.uncached_tokens,
            "prefill_s": round(decision.prefill_s, 6),
            "avoided_s": round(decision.avoided_s, 6),
            "ties": self.ties,
        }


def known_tiers(held: TierTokens) -> Mapping[str, int]:
    """Disjoint tokens of each tier of which anything is known."""
    split = zip(("l0", "l1", "l2"), held, held.split())
    return {name: tokens for name, known, tokens in split if known is not None}


def excluded_of(servers: Iterable[Server], prepared: Prepared, now: float) -> list[Excluded]:
    """Of all ``servers`` the replicas that are not to be sent the request. One that was never probed has no replica:
    it stands for itself.
    """
    return [
        Excluded(replica_id, why, server.fault)
        for server in servers
        if (why := _why_not(server, prepared, now))
        for replica_id in [replica.id for replica in server.replicas] or [server.id]
    ]


def _why_not(server: Server, prepared: Prepared, now: float) -> str:
    if not server.serves(prepared.served.name):
        return "other model"
    if prepared.pinned and server.id != prepared.pinned:
        return "response kept elsewhere"
    return server.obstacle(now) or ("" if server.replicas else "nothing known yet")
