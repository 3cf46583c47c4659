"""Candidates: replicas as strategies see them, for one request at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier, TierTokens
from gateway.router.prepared import Prepared
from router_strategies import Candidate
from router_strategies._cost import Work, prefill_seconds


class EventKnowledge(Protocol):
    """What the followers of event streams tell of a replica."""

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        """``None``: its events are not followed; what is known of it is what was sent there."""
        ...


class BlockSizes:
    """Tokens per block of each replica: as its events show, else as its metrics say, else the default.

    The default only has to equal itself: it is used where nothing but our own routing is known.
    """

    def __init__(self, events: EventKnowledge, default: int = 16) -> None:
        self._events = events
        self._default = default

    def l0(self, replica: Replica) -> int:
        return self.of(replica, self._events.stats(replica.key))

    def all(self, replica: Replica) -> set[int]:
        """Of every tier."""
        stats = self._events.stats(replica.key)
        return {self.of(replica, stats), *(stats.block_sizes.values() if stats else ())}

    def of(self, replica: Replica, stats: FeedStats | None) -> int:
        """Of L0, where its ``stats`` are at hand."""
        seen = stats.block_sizes.get(Tier.L0) if stats else None
        return seen or replica.report.block_size or self._default


class Candidates:
    """Builds them, all with the one cost model.

    This runs for every replica at every attempt: fields are given by position and sums are made once, which halves
    its time. `python -m benchmarks.decide` measures it.
    """

    def __init__(self, routed: Routed, events: EventKnowledge, block_sizes: BlockSizes, speeds: Speeds) -> None:
        self._routed = routed
        self._events = events
        self._block_sizes = block_sizes
        self._speeds = speeds

    def build(self, prepared: Prepared, replicas: Sequence[Replica], now: float) -> list[Candidate]:
        """One candidate for each of ``replicas``, in their order."""
        expected = self._expected(prepared, replicas, now)
        return [
            self._candidate(prepared, replica, prepared.confirmed.get(replica.key), expected.get(replica.key, 0), now)
            for replica in replicas
        ]

    def _candidate(
        self, prepared: Prepared, replica: Replica, confirmed: TierTokens | None, routed: int, now: float
    ) -> Candidate:
        key, workload, report, speeds = replica.key, replica.workload, replica.report, self._speeds
        stats = self._events.stats(key)
        trust = 1.0 if stats is None else stats.state.trust
        split = confirmed.split() if confirmed else (0, 0, 0)
        work = credited_work(prepared.work_tokens, split, routed, trust)
        block_size = self._block_sizes.of(replica, stats)
        tokens = max(sum(split), routed)
        return Candidate(
            replica.id,
            *split,
            tokens,
            trust,
            prefill_seconds(work, speeds.rates, replica.server.spec.speed),
            workload.promised_s(now),
            workload.kv_blocks + self._routed.unique_blocks(key),
            (work.uncached + prepared.output_tokens(speeds.output_tokens)) / block_size + 1,
            report.kv_blocks or 0,
            workload.decoding,
            speeds.decode_s,
            workload.inflight,
            workload.pending_tokens,
            -1.0 if report.waiting is None else report.waiting,
            -1.0 if report.running is None else report.running,
            -1.0 if report.kv_usage is None else report.kv_usage,
            -1.0 if replica.reported_s is None else now - replica.reported_s,
            self._sharing(prepared, key, block_size, tokens) if tokens else 0,
            replica.server.spec.speed,
        )

    def _expected(self, prepared: Prepared, replicas: Sequence[Replica], now: float) -> Mapping[ReplicaKey, int]:
        chains = prepared.matchable
        return self._routed.match(chains, [replica.key for replica in replicas], now=now) if chains else {}

    def _sharing(self, prepared: Prepared, key: ReplicaKey, block_size: int, tokens: int) -> int:
        """Requests in flight there that share the deepest block matched."""
        depth = tokens // block_size
        chain = prepared.chains.get(block_size, ())
        return self._routed.sharing(key, chain[depth - 1]) if 0 < depth <= len(chain) else 0


def credited_work(prompt_tokens: int, confirmed: tuple[int, int, int], routed: int, trust: float = 1.0) -> Work:
    """Credit for what events confirm, as far as they are believed, or for what is on its way, whichever is more.

    ``confirmed``: disjoint tokens of L0, L1 and L2.
    """
    l0, l1, l2 = confirmed
    believed = (l0 + l1 + l2) * trust
    if routed > believed:
        return Work(prompt_tokens - routed if prompt_tokens > routed else 0.0, routed)
    return Work(prompt_tokens - believed if prompt_tokens > believed else 0.0, believed, l1 * trust, l2 * trust)
