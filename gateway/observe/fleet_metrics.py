"""FleetMetrics: what is true of replicas, event feeds and the index at the moment of a scrape.

Read when asked, so that a replica that left has no series any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index_budget import IndexBudget
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier

_ReplicaValue = Callable[[Replica], float | None]

_RATES = {
    "prefill_tokens_s": ("prefill_tokens_per_second", "prompt tokens computed a second, without attention"),
    "doubling_tokens": ("prefill_doubling_tokens", "context at which attention doubles a token's time"),
    "step_s": ("prefill_step_seconds", "base time of an engine step"),
    "l1_tokens_s": ("l1_tokens_per_second", "tokens loaded a second from host memory"),
    "l2_tokens_s": ("l2_tokens_per_second", "tokens loaded a second from shared storage"),
    "decoding_s": ("decoding_seconds", "what each sequence that decodes adds to a prefill"),
}


class FleetMetrics(Collector):
    """A collector for prometheus_client. Register it once."""

    def __init__(
        self,
        pool: ReplicaPool,
        index: MemoryIndex,
        feeds: Callable[[], Mapping[ReplicaKey, FeedStats]],
        speeds: Speeds,
        *,
        stats: Callable[[ReplicaKey], FeedStats | None],
        budget: IndexBudget,
        unknown_settings: int,
        log_lines_dropped: Callable[[], int],
        retries_refused: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """``feeds``: those that this process follows itself. ``stats``: what is known of a replica's events, here or
        by way of others; ``None``: it sends none.
        """
        self._pool = pool
        self._index = index
        self._feeds = feeds
        self._stats = stats
        self._speeds = speeds
        self._budget = budget
        self._unknown_settings = unknown_settings
        self._log_lines_dropped = log_lines_dropped
        self._retries_refused = retries_refused
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        yield from self._replicas()
        yield from self._events()
        yield from self._memory()
        yield _gauge("prefill_calibration", "Actual over predicted prefill seconds", self._speeds.rates.calibration)
        for rate in self._speeds.learned():
            name, doc = _RATES[rate.name]
            yield _gauge(name, f"Learned of replicas of speed 1: {doc}", rate.value)
        dropped = _counter("access_log_lines_dropped", "Lines that standard output did not take in time")
        dropped.add_metric((), self._log_lines_dropped())
        yield dropped
        refused = _counter("retries_refused", "Answers passed for want of retry budget that else were tried elsewhere")
        refused.add_metric((), self._retries_refused())
        yield refused
        yield _gauge("settings_unknown", "Names in the environment that are no setting", self._unknown_settings)

    def _memory(self) -> Iterable[Metric]:
        budget = self._budget
        yield _gauge("index_block_owners", "Pairs of block and owner in the index", self._index.block_owners())
        yield _gauge("index_bytes", "Memory of all that is known of caches, estimated", budget.used_bytes)
        if budget.limit_bytes is not None:
            yield _gauge("index_bytes_limit", "What that may be", budget.limit_bytes)
        if budget.l2 is not None:
            yield _gauge("l2_estimated_chunks", "Chunks held to lie in L2, by an estimate", budget.l2.chunks)
            yield _gauge("l2_estimate_holds", "0..1: share found of what was estimated", budget.l2.holds(self._clock()))
        given_up = _counter("index_given_up", "Entries that were given up to stay below it, by kind", "kind")
        for kind, count in budget.given_up.items():
            given_up.add_metric((kind,), count)
        yield given_up

    def _replicas(self) -> Iterable[Metric]:
        now = self._clock()
        rows: tuple[tuple[str, str, _ReplicaValue], ...] = (
            ("up", "1: answers its probes", lambda r: float(r.server.healthy)),
            ("draining", "1: takes no new requests", lambda r: float(r.server.draining)),
            ("held_back", "1: not ready for requests, as its directory says", lambda r: float(r.server.held_back)),
            ("breaker_open", "1: failed too often in a row", lambda r: float(not r.server.breaker.is_closed)),
            ("stalled", "1: keeps requests waiting and sends no byte", lambda r: float(r.server.is_stalled(now))),
            ("inflight", "Requests in flight from here", lambda r: r.workload.own_inflight),
            ("decoding", "Of those, past their first token", lambda r: r.workload.own_decoding),
            ("promised_seconds", "Prefill promised by all gateways, not done", lambda r: r.workload.promised_s(now)),
            ("waiting", "Queued, as it reports", lambda r: r.report.waiting),
            ("running", "Running, as it reports", lambda r: r.report.running),
            ("kv_usage", "0..1, as it reports", lambda r: r.report.kv_usage),
            (
                "l0_blocks",
                "Blocks it holds in its GPU, as events tell",
                lambda r: self._index.owned(r.key, Tier.L0),
            ),
            ("trust", "0..1: how far its events are believed", self._trust),
        )
        for name, doc, value in rows:
            family = GaugeMetricFamily(f"prefixway_replica_{name}", doc, labels=("replica",))
            for replica in self._pool.replicas:
                if (sample := value(replica)) is not None:
                    family.add_metric((replica.id,), sample)
            yield family

    def _trust(self, replica: Replica) -> float | None:
        stats = self._stats(replica.key)
        return None if stats is None else stats.trust

    def _events(self) -> Iterable[Metric]:
        decoded = _counter("kv_events_decoded", "KV events decoded", "replica")
        batches = _counter("kv_event_batches", "Batches of KV events applied", "replica")
        dropped = _counter("kv_events_dropped", "KV events not used, by reason", "replica", "reason")
        gaps = _counter("kv_event_gaps", "Gaps in the sequence of batches", "replica")
        replays = _counter("kv_event_replays", "Replays asked for", "replica")
        restarts = _counter("replica_restarts", "Engine processes replaced, as its events showed", "replica")
        lag = GaugeMetricFamily(
            "prefixway_kv_event_lag_seconds", "Age of the last batch on arrival", labels=("replica",)
        )
        for key, stats in self._feeds().items():
            replica = (key.replica_id,)
            decoded.add_metric(replica, stats.decoded)
            batches.add_metric(replica, stats.batches)
            gaps.add_metric(replica, stats.gaps)
            replays.add_metric(replica, stats.replays)
            restarts.add_metric(replica, stats.restarts)
            for reason, count in stats.dropped.items():
                dropped.add_metric((*replica, reason), count)
            if stats.lag_s is not None:
                lag.add_metric(replica, stats.lag_s)
        yield from (decoded, batches, dropped, gaps, replays, restarts, lag)


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"prefixway_{name}", doc, value=value)


def _counter(name: str, doc: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"prefixway_{name}", doc, labels=labels)
