"""LoadReport: what a replica says about itself on /metrics.

The text is scanned for the few names that matter instead of being parsed as a whole: a replica's page has hundreds
of lines, and hundreds of replicas are read every few seconds. Current vLLM names and older ones mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

_NAMES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:gpu_cache_usage_perc": "kv_usage",  # until 0.10
    "vllm:prefix_cache_queries_total": "prefix_queries",
    "vllm:prefix_cache_hits_total": "prefix_hits",
    "vllm:gpu_prefix_cache_queries_total": "prefix_queries",  # until 0.10
    "vllm:gpu_prefix_cache_hits_total": "prefix_hits",
    "vllm:generation_tokens_total": "generated_tokens",
}
_SAMPLE = re.compile(
    rf"^({'|'.join(re.escape(name) for name in [*_NAMES, 'vllm:cache_config_info', 'process_start_time_seconds'])})"
    r"(?:\{([^}\n]*)\})? ([^ \n]+)",
    re.MULTILINE,
)
_MOST_DIGITS, _MOST_RANK_DIGITS = 12, 5  # Python refuses to read endless numbers, and none of these is one
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class LoadReport:
    """One data-parallel rank. ``None``: the replica does not say, which never means 0."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None  # 0..1
    prefix_queries: float | None = None  # tokens looked up in the prefix cache
    prefix_hits: float | None = None  # tokens found there
    generated_tokens: float | None = None  # since its process began
    block_size: int | None = None
    kv_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class ServerReport:
    """All ranks of one server, by rank, and when its process started (Unix seconds)."""

    ranks: Mapping[int, LoadReport]
    process_start_s: float | None


def parse_metrics(text: str) -> ServerReport:
    """Read a /metrics page. What is not a number is left out; anything else on the page is ignored."""
    ranks: dict[int, LoadReport] = {}
    process_start_s = None
    for name, label_text, value_text in _SAMPLE.findall(text):
        value = _number(value_text)
        if value is None:
            continue
        if name == "process_start_time_seconds":
            process_start_s = value
            continue
        labels = dict(_LABEL.findall(label_text))
        report = ranks.setdefault(_rank(labels), LoadReport())
        if name == "vllm:cache_config_info":
            report.block_size = _count(labels.get("block_size"))
            report.kv_blocks = _count(labels.get("num_gpu_blocks"))
        else:
            setattr(report, _NAMES[name], value)
    return ServerReport(ranks, process_start_s)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _count(text: str | None) -> int | None:
    return (int(text) or None) if text is not None and text.isdecimal() and len(text) < _MOST_DIGITS else None


def _rank(labels: Mapping[str, str]) -> int:
    engine = labels.get("engine", "0")
    return int(engine) if engine.isdecimal() and len(engine) < _MOST_RANK_DIGITS else 0
