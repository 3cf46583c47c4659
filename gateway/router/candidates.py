"""Candidates: replicas as strategies see them, for one request at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.speeds import Speeds, TypicalRequest
from gateway.kv.feed_stats import FeedStats
from gateway.kv.routed import Routed
from gateway.kv.tiers import TierTokens
from gateway.router.prepared import Prepared
from router_strategies import Candidate
from router_strategies._cost import Rates, Work, prefill_seconds

_NOTHING = TierTokens()
_NO_REQUEST = TypicalRequest(0.0, 0.0)  # was sent yet


# Tokens held in L0, L1 and L2; the longer of them all and what is on its way; and what a request therefore costs there:
# seconds of prefill at speed 1.0, and tokens to compute; and tokens that it is estimated to load beside all that.
_Credit = tuple[int, int, int, int, float, float, int]


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

    def among(self, replicas: Iterable[Replica]) -> set[int]:
        """Of every tier of any of ``replicas``."""
        sizes: set[int] = set()
        stats_of = self._events.stats
        for replica in replicas:
            stats = stats_of(replica.key)
            sizes.add((stats and stats.l0_block_size) or self.of(replica, stats))
            if stats is not None and len(stats.block_sizes) > bool(stats.l0_block_size):
                sizes.update(stats.block_sizes.values())
        return sizes

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
        expected, confirmed = self._expected(prepared, replicas, now), prepared.confirmed
        stats_of, block_size_of, in_flight_of = self._events.stats, self._block_sizes.of, self._routed.in_flight
        output_tokens, decode_s = prepared.output_tokens(self._speeds.output_tokens), self._speeds.decode_s
        decoding_s = self._speeds.rates.calibration * self._speeds.rates.decoding_s
        known: dict[tuple[TierTokens, int, float], _Credit] = {}  # those that hold equally much cost equally much
        typical = self._speeds.typical or _NO_REQUEST
        candidates = []
        for replica in replicas:
            key, workload, speed = replica.key, replica.workload, replica.speed
            stats, in_flight = stats_of(key), in_flight_of(key)
            trust = 1.0 if stats is None else stats.trust
            block_size = block_size_of(replica, stats)
            holds = confirmed.get(key, _NOTHING), expected.get(key, 0), trust
            if (credit := known.get(holds)) is None:
                credit = known[holds] = self._credit(prepared, *holds)
            l0, l1, l2, tokens, prefill_s, uncached, l2_estimate = credit
            waiting, running, kv_usage = replica.reported_load
            kv_blocks_used, decoding = workload.kv_blocks + len(in_flight), workload.decoding
            promised_s, inflight, pending = workload.promised_s(now), workload.inflight, workload.pending_tokens
            if replica.strangers is not None:  # each counts like ours on the average
                theirs, theirs_waiting = replica.strangers
                decoding += theirs
                inflight += theirs
                if theirs_waiting:
                    inflight += int(theirs_waiting)
                    promised_s += theirs_waiting * typical.prefill_s / speed
                    pending += int(theirs_waiting * typical.tokens)
                if (reported := kv_usage * replica.kv_blocks) > kv_blocks_used:
                    kv_blocks_used = reported
            age_s = -1.0 if replica.reported_s is None else now - replica.reported_s
            # fmt: off
            candidates.append(Candidate(
                replica.id, l0, l1, l2, tokens, trust,
                (prefill_s + decoding_s * decoding) / speed, promised_s,
                kv_blocks_used, (uncached + output_tokens) / block_size + 1, replica.kv_blocks,
                decoding, decode_s, inflight, pending,
                waiting, running, kv_usage, age_s,
                _sharing(in_flight, prepared.chains.get(block_size, ()), tokens // block_size) if tokens else 0,
                speed, l2_estimate,
            ))
            # fmt: on
        return candidates

    def priced(self, prepared: Prepared, replica: Replica, now: float) -> Candidate:
        """One that was chosen by its name, with what the request will cost there."""
        if prepared.matchable:
            return self.build(prepared, [replica], now)[0]
        prefill_s = prefill_seconds(Work(prepared.work_tokens, 0), self._speeds.rates, replica.speed)
        return Candidate(replica.id, prefill_s=prefill_s, speed=replica.speed)

    def _credit(self, prepared: Prepared, held: TierTokens, routed: int, trust: float) -> _Credit:
        rates, estimate = self._speeds.rates, prepared.l2_estimate
        l0, l1, l2 = split = held.split()
        work = credited_work(prepared.work_tokens, split, routed, trust)
        tokens, seconds = max(l0 + l1 + l2, routed), prefill_seconds(work, rates)
        if estimate and (loading := loading_work(work, estimate, rates)) is not None:
            loading_s = prefill_seconds(loading, rates)
            if loading_s < seconds:
                return l0, l1, l2, tokens, loading_s, work.uncached, max(0, estimate - tokens)
        return l0, l1, l2, tokens, seconds, work.uncached, 0

    def _expected(self, prepared: Prepared, replicas: Sequence[Replica], now: float) -> Mapping[ReplicaKey, int]:
        if not prepared.matchable:
            return {}
        return self._routed.match(prepared.matchable, [replica.key for replica in replicas], now=now)


def _sharing(in_flight: Mapping[int, int], chain: Sequence[int], depth: int) -> int:
    """Requests in flight there that share the deepest block matched."""
    return in_flight.get(chain[depth - 1], 0) if 0 < depth <= len(chain) else 0


def credited_work(prompt_tokens: int, confirmed: tuple[int, int, int], routed: int, trust: float = 1.0) -> Work:
    """Credit for what events confirm, as far as they are believed, or for what is on its way, whichever is more.

    ``confirmed``: disjoint tokens of L0, L1 and L2.
    """
    l0, l1, l2 = confirmed
    believed = (l0 + l1 + l2) * trust
    if routed > believed:
        return Work(prompt_tokens - routed if prompt_tokens > routed else 0.0, routed)
    return Work(prompt_tokens - believed if prompt_tokens > believed else 0.0, believed, l1 * trust, l2 * trust)


def loading_work(work: Work, estimate: int, rates: Rates) -> Work | None:
    """``work``, if all that lies in L2 by an ``estimate`` is loaded beside what is held; ``None``: not worth the way.

    Tokens from the prompt's first on. They are credited whole: there is no replica whose events could be doubted.
    """
    loaded = estimate - work.cached
    if loaded <= 0 or loaded < rates.l2_least_tokens:
        return None
    uncached, cached, from_l1, from_l2 = work
    return Work(max(0.0, uncached - loaded), cached + loaded, from_l1, from_l2 + loaded)
