"""Candidates: replicas as strategies see them, for one request at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.routed import Routed
from gateway.router.prepared import Prepared
from router_strategies import Candidate
from router_strategies._cost import Work, prefill_seconds

_NONE = (0, 0, 0)  # tokens of L0, L1, L2


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
        return (stats and stats.l0_block_size) or replica.report.block_size or self._default


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
        confirmed, speeds, rates = prepared.confirmed, self._speeds, self._speeds.rates
        work_tokens, output_tokens = prepared.work_tokens, prepared.output_tokens(speeds.output_tokens)
        candidates = []
        for replica in replicas:
            key, workload, speed = replica.key, replica.workload, replica.speed
            stats = self._events.stats(key)
            trust = 1.0 if stats is None else stats.state.trust
            split = confirmed[key].split() if key in confirmed else _NONE
            routed = expected.get(key, 0)
            work = credited_work(work_tokens, split, routed, trust)
            tokens = max(sum(split), routed)
            block_size = self._block_sizes.of(replica, stats)
            candidates.append(
                Candidate(
                    replica.id,
                    *split,
                    tokens,
                    trust,
                    prefill_seconds(work, rates, speed),
                    workload.promised_s(now),
                    workload.kv_blocks + self._routed.unique_blocks(key),
                    (work.uncached + output_tokens) / block_size + 1,
                    replica.kv_blocks,
                    workload.decoding,
                    speeds.decode_s,
                    workload.inflight,
                    workload.pending_tokens,
                    *replica.reported_load,
                    -1.0 if replica.reported_s is None else now - replica.reported_s,
                    self._sharing(prepared, key, block_size, tokens) if tokens else 0,
                    speed,
                )
            )
        return candidates

    def _expected(self, prepared: Prepared, replicas: Sequence[Replica], now: float) -> Mapping[ReplicaKey, int]:
        if not prepared.matchable:
            return {}
        return self._routed.match(prepared.matchable, [replica.key for replica in replicas], now=now)

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
