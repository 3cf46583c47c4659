"""How the gauges of several workers become one. Every gauge that the gateway shows is named here.

What a worker counts of its own adds up; what all of them see of the same thing must not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

Rule = Callable[[Sequence[float]], float]

GAUGES: Mapping[str, Rule] = {
    "prefixway_admission_inflight": sum,
    "prefixway_admission_inflight_tokens": sum,
    "prefixway_admission_waiting": sum,
    "prefixway_admission_waiting_tokens": sum,
    "prefixway_api_keys": max,
    "prefixway_api_keys_stale": max,
    "prefixway_client_connections": sum,
    "prefixway_decoding_seconds": fmean,
    "prefixway_discovery_age_seconds": max,
    "prefixway_discovery_entry_faults": max,
    "prefixway_findings": max,
    "prefixway_index_block_owners": max,
    "prefixway_index_bytes": sum,
    "prefixway_index_bytes_limit": sum,
    "prefixway_kv_event_lag_seconds": max,
    "prefixway_l2_estimate_holds": min,
    "prefixway_l2_estimated_chunks": max,
    "prefixway_l1_tokens_per_second": fmean,
    "prefixway_l2_tokens_per_second": fmean,
    "prefixway_load_peer_inflight": max,
    "prefixway_load_peers": max,
    "prefixway_members": max,
    "prefixway_members_divergent": max,
    "prefixway_orders": max,
    "prefixway_prefill_calibration": fmean,
    "prefixway_prefill_doubling_tokens": fmean,
    "prefixway_prefill_step_seconds": fmean,
    "prefixway_prefill_tokens_per_second": fmean,
    "prefixway_redis_up": min,
    "prefixway_replica_breaker_open": max,
    "prefixway_replica_connections": sum,
    "prefixway_replica_decoding": sum,
    "prefixway_replica_draining": max,
    "prefixway_replica_held_back": max,
    "prefixway_replica_inflight": sum,
    "prefixway_replica_kv_usage": max,
    "prefixway_replica_l0_blocks": max,
    "prefixway_replica_promised_seconds": max,
    "prefixway_replica_running": max,
    "prefixway_replica_stalled": max,
    "prefixway_replica_trust": max,
    "prefixway_replica_up": max,
    "prefixway_replica_waiting": max,
    "prefixway_settings_unknown": max,
    "prefixway_shared_index_foreign": max,
    "prefixway_shared_index_replicas": max,
    "prefixway_shared_index_unreadable": max,
    "prefixway_shared_index_written": sum,
    "prefixway_tls_expires_seconds": min,
    "prefixway_tls_stale": max,
}


def one_of(name: str, values: Sequence[float]) -> float:
    """The one value of a gauge that several workers told, at least one. Of an unknown gauge: the largest."""
    return GAUGES.get(name, max)(values)
