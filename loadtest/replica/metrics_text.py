"""The text of /metrics: the names and labels vLLM 0.32 gives its load and cache, or those it had in 0.8.

Only what routers read. Does not know where the numbers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.silent_faults import SilentFaults

_TTFT_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)


class Family(NamedTuple):
    """One metric: its name, its type, and a value for each set of labels (suffix, labels, value)."""

    name: str
    kind: str
    samples: Sequence[tuple[str, Mapping[str, str], float]]


def metrics_text(
    options: ReplicaOptions, ranks: Sequence[EngineRank], start_time_s: float, asked: Mapping[str, int] | None = None
) -> str:
    """The whole page. ``start_time_s``: seconds since the epoch. ``asked``: POSTs answered well, by path."""
    families = [Family("process_start_time_seconds", "gauge", [("", {}, start_time_s)]), _asked(asked or {})]
    for rank in (rank for rank in ranks if not rank.silent.hides_metrics):
        labels = {"model_name": options.model}
        if options.metrics_dialect == "0.32":
            labels["engine"] = str(rank.rank)
            families += _current(rank, labels)
        else:
            families += _older(rank, labels)
        families += _shared(rank, labels)
        families.append(_cache_config(options, rank.silent, labels))
    return "".join(_lines(families))


def _shared(rank: EngineRank, labels: Mapping[str, str]) -> list[Family]:
    stats = rank.scheduler.stats
    return [
        Family("vllm:num_requests_running", "gauge", [("", labels, rank.scheduler.running)]),
        Family("vllm:num_requests_waiting", "gauge", [("", labels, rank.scheduler.waiting)]),
        Family("vllm:num_preemptions", "counter", [("_total", labels, stats.preemptions)]),
        Family("vllm:prompt_tokens", "counter", [("_total", labels, stats.prompt_tokens)]),
        Family("vllm:generation_tokens", "counter", [("_total", labels, stats.generated_tokens)]),
        _request_success(stats.finished, labels),
        _ttft(stats.ttft_s, labels),
    ]


def _current(rank: EngineRank, labels: Mapping[str, str]) -> list[Family]:
    stats = rank.scheduler.stats
    loaded, missed = stats.host_tokens + stats.storage_tokens, stats.queried_tokens - stats.hit_tokens
    computed = stats.prompt_tokens - stats.hit_tokens - loaded
    by_source = {"local_compute": computed, "local_cache_hit": stats.hit_tokens, "external_kv_transfer": loaded}
    rows = [("_total", {**labels, "source": source}, float(value)) for source, value in by_source.items()]
    return [
        Family("vllm:kv_cache_usage_perc", "gauge", [("", labels, _usage(rank))]),
        Family("vllm:prefix_cache_queries", "counter", [("_total", labels, stats.queried_tokens)]),
        Family("vllm:prefix_cache_hits", "counter", [("_total", labels, stats.hit_tokens)]),
        Family("vllm:external_prefix_cache_queries", "counter", [("_total", labels, missed)]),
        Family("vllm:external_prefix_cache_hits", "counter", [("_total", labels, loaded)]),
        Family("vllm:prompt_tokens_cached", "counter", [("_total", labels, stats.hit_tokens + loaded)]),
        Family("vllm:prompt_tokens_by_source", "counter", rows),
        _sleep_state(rank.scheduler.sleep_level, labels),
    ]


def _sleep_state(level: int | None, labels: Mapping[str, str]) -> Family:
    states = {"awake": level is None, "weights_offloaded": level == 1, "discard_all": level == 2}
    return Family(
        "vllm:engine_sleep_state",
        "gauge",
        [("", {**labels, "sleep_state": state}, float(holds)) for state, holds in states.items()],
    )


def _asked(asked: Mapping[str, int]) -> Family:
    rows = [("_total", {"handler": path, "method": "POST", "status": "2xx"}, float(n)) for path, n in asked.items()]
    return Family("http_requests", "counter", rows)


def _older(rank: EngineRank, labels: Mapping[str, str]) -> list[Family]:
    stats = rank.scheduler.stats
    return [
        Family("vllm:gpu_cache_usage_perc", "gauge", [("", labels, _usage(rank))]),
        Family("vllm:gpu_prefix_cache_queries", "counter", [("_total", labels, stats.queried_tokens)]),
        Family("vllm:gpu_prefix_cache_hits", "counter", [("_total", labels, stats.hit_tokens)]),
    ]


def _usage(rank: EngineRank) -> float:
    return rank.cache.used_blocks / rank.cache.capacity_blocks


def _request_success(finished: Mapping[str, int], labels: Mapping[str, str]) -> Family:
    rows = [("_total", {**labels, "finished_reason": reason}, float(n)) for reason, n in finished.items()]
    return Family("vllm:request_success", "counter", rows)


def _ttft(ttft_s: Sequence[float], labels: Mapping[str, str]) -> Family:
    buckets = [(str(bound), sum(value <= bound for value in ttft_s)) for bound in _TTFT_BUCKETS_S]
    buckets.append(("+Inf", len(ttft_s)))
    rows: list[tuple[str, Mapping[str, str], float]] = [
        ("_bucket", {**labels, "le": bound}, count) for bound, count in buckets
    ]
    rows += [("_count", labels, len(ttft_s)), ("_sum", labels, sum(ttft_s))]
    return Family("vllm:time_to_first_token_seconds", "histogram", rows)


def _cache_config(options: ReplicaOptions, silent: SilentFaults, labels: Mapping[str, str]) -> Family:
    config = {
        "block_size": str(silent.claimed_block_size or options.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(silent.caches),
        "kv_cache_size_tokens": str(options.capacity_blocks * options.block_size),
        # With the null block. vLLM adds up those of all ranks.
        "num_gpu_blocks": str((options.capacity_blocks + 1) * options.ranks),
        "prefix_caching_hash_algo": "sha256",
    }
    engine = {"engine": labels["engine"]} if "engine" in labels else {}
    return Family("vllm:cache_config_info", "gauge", [("", {**config, **engine}, 1.0)])


def _lines(families: Sequence[Family]) -> Iterator[str]:
    seen: set[str] = set()
    for family in families:
        if family.name not in seen:
            seen.add(family.name)
            suffix = "_total" if family.kind == "counter" else ""
            yield f"# HELP {family.name}{suffix} Simulated.\n# TYPE {family.name}{suffix} {family.kind}\n"
        for suffix, labels, value in family.samples:
            inner = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
            yield f"{family.name}{suffix}{f'{{{inner}}}' if inner else ''} {float(value)!r}\n"
