"""Gauges of the fleet are read at the scrape."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry

from gateway.fleet.inflight import InFlight
from gateway.fleet.load_report import LoadReport
from gateway.fleet.speeds import Speeds
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.index_budget import BYTES_PER_CHUNK, BYTES_PER_OWNER, IndexBudget
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.observe.fleet_metrics import FleetMetrics
from tests.gateway.examples import Clock, a_pool


def test_replicas_feeds_and_index() -> None:
    """Values have their sources; what is unknown has no series; who left has none either."""
    pool, index = a_pool(), MemoryIndex()
    events = EventFollowing(pool, index, Routed(), secret=b"s", wall_clock=lambda: 0.0)
    a, b = pool.replicas
    index.begin(a.key, {Tier.L0: [1, 2, 3]})
    a.reported(LoadReport(waiting=4, kv_usage=0.5), 0.0)
    b.server.probe_missed("gone")
    b.server.held_back = True
    for ours, promised_s in ((True, 0.25), (False, 0.5)):
        a.workload.dispatch(InFlight(promised_s, promised_s, 9, 1.0, True, 100.0, ours=ours), 100.0)
    feeds = {a.key: FeedStats(state=FeedState.SUSPECT, decoded=7, gaps=1, dropped=Counter(other_group=2), lag_s=0.25)}
    registry, estimate = CollectorRegistry(), L2Estimate()
    estimate.finished([7, 8], 256, now=0.0)
    estimate.compared(40_000, 10_000, now=100.0)
    b.server.sent(30.0)  # seventy seconds ago
    registry.register(
        FleetMetrics(
            pool,
            index,
            lambda: feeds,
            Speeds(),
            stats=feeds.get,
            budget=IndexBudget(events.indexer, index, Routed(), limit_mb=7, clock=Clock(), l2=estimate),
            unknown_settings=1,
            log_lines_dropped=lambda: 3,
            retries_refused=lambda: 5,
            clock=Clock(),
        )
    )

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"prefixway_{name}", labels)

    assert value("replica_up", replica="a") == 1
    assert (value("replica_held_back", replica="a"), value("replica_held_back", replica="b")) == (0, 1)
    assert value("replica_inflight", replica="a") == 1
    assert value("replica_decoding", replica="a") == 0
    assert value("replica_promised_seconds", replica="a") == 0.75
    assert value("replica_trust", replica="a") == 0.5
    assert value("replica_trust", replica="b") is None
    assert value("replica_waiting", replica="a") == 4
    assert value("replica_waiting", replica="b") is None
    assert value("replica_l0_blocks", replica="a") == 3
    assert value("kv_events_decoded_total", replica="a") == 7
    assert value("kv_events_dropped_total", replica="a", reason="other_group") == 2
    assert value("kv_event_lag_seconds", replica="a") == 0.25
    assert value("index_block_owners") == 3
    assert value("index_bytes") == 3 * BYTES_PER_OWNER + 2 * BYTES_PER_CHUNK
    assert (value("l2_estimated_chunks"), value("l2_estimate_holds")) == (2, 0.5)
    assert value("index_bytes_limit") == 7_000_000
    assert value("index_given_up_total", kind="held") == 0
    assert value("settings_unknown") == 1
    assert (value("prefill_tokens_per_second"), value("l1_tokens_per_second")) == (8_000, 120_000)
    assert (value("prefill_step_seconds"), value("decoding_seconds")) == (0.012, 0.0002)
    assert value("retries_refused_total") == 5
    assert (value("replica_stalled", replica="a"), value("replica_stalled", replica="b")) == (0, 1)
    assert value("access_log_lines_dropped_total") == 3
    pool.reconcile([b.server.spec])
    assert value("replica_up", replica="a") is None
    assert value("replica_up", replica="b") == 1
