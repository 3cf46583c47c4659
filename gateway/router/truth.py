"""Truth: what was predicted of requests, against what really happened there.

For each request whose prompt is known a :class:`Claim` is made with the decision, and put to the test at its end:

- against the answer's own usage: what the engine found cached, and how many tokens it counted in the prompt;
- where usage does not tell, with others together, against the replica's counters (:mod:`.counter_window`);
- a moment after the end: whether events told of what the prompt left in the cache (:mod:`.confirmations`).

A claim is only fit for that if it was certain: events fresh at the decision, and no blocks on their way there that a
request still running may or may not have stored by the time this one is scheduled. What is not fit is counted with its
reason. Of errors only over-prediction lowers trust, less what the replica said that it evicted between the decision
and the first byte, since with a queue that happens to any prediction.

Everything is kept by replica, and what tells of one engine process is forgotten with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gateway.fleet.event_source import EventSource
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.evidence import Evidence
from gateway.kv.feed_stats import FeedStats
from gateway.kv.l2_estimate import L2Estimate
from gateway.router.candidates import EventKnowledge
from gateway.router.claim import NO_DETAILS, NO_USAGE, Claim
from gateway.router.confirmations import GRACE_S, Announced, Confirmations
from gateway.router.decision import Decision
from gateway.router.prediction_counts import PredictionCounts
from gateway.router.prepared import Prepared
from gateway.router.replica_truth import ReplicaTruth
from gateway.usage import Usage

_SWEEP_S = 1.0


class Truth:
    """Hears of every decision and of every good end. Also a listener of the pool.

    ``announced``: see :class:`Confirmations`. ``grace_s``: how long events may take after a request's end.
    ``l2`` is told what became of what it estimated.
    """

    def __init__(
        self,
        events: EventKnowledge,
        announced: Announced,
        *,
        clock: Callable[[], float],
        grace_s: float = GRACE_S,
        l2: L2Estimate | None = None,
    ) -> None:
        self._events = events
        self._clock = clock
        self._l2 = l2
        self._confirmations = Confirmations(announced, grace_s=grace_s)
        self._replicas: dict[str, ReplicaTruth] = {}  # by id
        self._present: dict[str, Replica] = {}  # those in the pool
        self._departed = PredictionCounts()
        self._sweep_at = 0.0

    def __repr__(self) -> str:
        return f"<Truth of {len(self._replicas)} replicas>"

    # What is known

    def evidence(self, key: ReplicaKey) -> Evidence | None:
        """What requests showed of an engine process lately; ``None``: none was sent there yet."""
        known = self._replicas.get(key.replica_id)
        return known.evidence if known is not None and known.key == key else None

    def counts(self, replica_id: str) -> PredictionCounts | None:
        """Of one replica; ``None``: nothing was predicted of it."""
        known = self._replicas.get(replica_id)
        return None if known is None else known.counts

    @property
    def by_replica(self) -> Mapping[str, PredictionCounts]:
        """Of each replica that is in the pool."""
        return {id_: known.counts for id_, known in self._replicas.items()}

    @property
    def total(self) -> PredictionCounts:
        """Of all replicas that there ever were."""
        total = PredictionCounts()
        for counts in (self._departed, *self.by_replica.values()):
            total.add(counts)
        return total

    # What happens

    def claim(
        self, prepared: Prepared, decision: Decision, replica: Replica, chain: Sequence[int], block_size: int
    ) -> Claim:
        """What is predicted of a request that is being sent to ``replica``.

        ``chain``: own hashes of its full blocks, of ``block_size`` tokens each.
        """
        kind = "lora" if prepared.served.lora else "salted" if prepared.request.cache_salt else "plain"
        held = (decision.confirmed.l0 or 0) // block_size
        new_block, end = (chain[held], (held + 1) * block_size) if held < len(chain) else (0, 0)
        claim = Claim(self, replica, decision, self._events.stats(replica.key), kind, new_block, end)
        self._meet(replica, claim.stats)
        return claim

    def ended(self, claim: Claim, usage: Usage | None) -> None:
        """See :class:`~gateway.router.claim.Judge`."""
        now, decision = self._clock(), claim.decision
        known = self._replicas.get(claim.key.replica_id)
        if known is None or known.replica is not claim.replica or known.key != claim.key:
            return
        known.look_at_counters()
        if decision.prompt_tokens:
            known.request_ended()
        if claim.leaves_news(usage):
            self._confirmations.expect(claim.key, claim.new_block, claim.kind, now)
        self._compare(known, claim, usage)
        if now >= self._sweep_at:
            self.settle()

    def settle(self) -> None:
        """Work off what is due: called as requests end, and before anybody reads."""
        now = self._clock()
        self._sweep_at = now + _SWEEP_S
        for key, kind, told in self._confirmations.due(now):
            known, stats = self._replicas.get(key.replica_id), self._events.stats(key)
            if known is not None and known.key == key and stats is not None and stats.is_current:
                known.confirmed(kind, told=told)
        for known in self._replicas.values():
            known.settle(self._events.stats(known.key), now)

    def _compare(self, known: ReplicaTruth, claim: Claim, usage: Usage | None) -> None:
        decision, reason = claim.decision, claim.unfit
        if usage is not None and claim.is_comparable and usage.prompt_tokens != decision.prompt_tokens:
            known.miscounted()
            reason = "miscounted"
        if decision.l2_estimate:
            is_told = usage is not None and claim.is_comparable and reason != "miscounted"
            self._compare_estimate(known, decision, usage.cached_tokens if usage is not None and is_told else None)
        if reason:
            known.unverified(decision, usage, reason)
        elif usage is None:
            known.wait(claim, NO_USAGE)
        elif usage.cached_tokens is None:
            known.wait(claim, NO_DETAILS)
        else:
            known.compared(claim, usage.cached_tokens)

    def _compare_estimate(self, known: ReplicaTruth, decision: Decision, cached_tokens: int | None) -> None:
        """It is no prediction: whether it holds is its own affair, and not its replica's."""
        found = None if cached_tokens is None else decision.found_in_l2(cached_tokens)
        known.estimated(decision.l2_estimate, found)
        if self._l2 is not None and found is not None:
            self._l2.compared(decision.l2_estimate, found, now=self._clock())

    def _meet(self, replica: Replica, stats: FeedStats | None) -> None:
        """Begin anew with every engine process, at its first request: what its counters say before that is where they
        are counted from. One that is not in the pool is not met.
        """
        known = self._replicas.get(replica.id)
        if (known is not None and known.key == replica.key) or self._present.get(replica.id) is not replica:
            return
        counts = PredictionCounts() if known is None else known.counts
        known = self._replicas[replica.id] = ReplicaTruth(replica, stats, counts, self._clock())
        known.look_at_counters()

    # PoolListener

    def joined(self, replica: Replica, source: EventSource | None) -> None:
        """Its requests count from now on."""
        self._present[replica.id] = replica

    def left(self, replica: Replica) -> None:
        """Its series vanish; what was counted stays in the total."""
        self._present.pop(replica.id, None)
        known = self._replicas.pop(replica.id, None)
        if known is not None:
            self._departed.add(known.counts)

    def process_changed(self, replica: Replica) -> None:
        """Its new key will say so."""
