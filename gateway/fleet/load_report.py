"""LoadReport: what a replica says about itself on /metrics.

The text is scanned for the few names that matter instead of being parsed as a whole: a replica's page has hundreds
of lines, and hundreds of replicas are read every few seconds. Current vLLM names and older ones mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    "vllm:external_prefix_cache_hits_total": "external_hits",
    "vllm:generation_tokens_total": "generated_tokens",
}
_CONFIG, _SLEEP, _STARTED = "vllm:cache_config_info", "vllm:engine_sleep_state", "process_start_time_seconds"
_ASKED, _CACHED = "http_requests_total", "vllm:prompt_tokens_cached_by_source_total"
_SAMPLE = re.compile(
    rf"^({'|'.join(re.escape(name) for name in [*_NAMES, _CONFIG, _SLEEP, _STARTED, _ASKED, _CACHED])})"
    r"(?:\{([^}\n]*)\})? ([^ \n]+)",
    re.MULTILINE,
)
_MOST_DIGITS, _MOST_RANK_DIGITS = 12, 5  # Python refuses to read endless numbers, and none of these is one
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
#: Paths of vLLM that empty the prefix cache. It publishes that only with the engine's next step.
RESETTING = frozenset({"/reset_prefix_cache", "/sleep", "/release_kv_cache_memory"})


@dataclass(slots=True)
class LoadReport:
    """One data-parallel rank. ``None``: the replica does not say, which never means 0."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None  # 0..1
    prefix_queries: float | None = None  # tokens looked up in the prefix cache
    prefix_hits: float | None = None  # tokens found there
    external_hits: float | None = None  # tokens found beyond it, in L1 and L2
    cached_by_source: dict[str, float] = field(default_factory=dict)  # tokens found, by vLLM's name of the tier
    generated_tokens: float | None = None  # since its process began
    block_size: int | None = None
    kv_blocks: int | None = None
    kv_tokens: int | None = None  # that its cache holds
    asleep: bool | None = None  # it takes requests, and serves none before it is woken
    prefix_caching: bool | None = None  # whether it keeps blocks for later prompts

    def is_older_process(self, later: LoadReport) -> bool:
        """Whether ``later`` is of another process: what only ever grows has become less."""
        before = (self.generated_tokens, self.prefix_queries, self.prefix_hits)
        after = (later.generated_tokens, later.prefix_queries, later.prefix_hits)
        return any(was is not None and is_ is not None and is_ < was for was, is_ in zip(before, after))

    def is_standing(self, later: LoadReport) -> bool:
        """Whether the engine made no step until ``later``. vLLM renews what it tells with its steps only: after all
        its requests were aborted it makes none, and tells of them until the next one comes.
        """
        before = (self.running, self.waiting, self.kv_usage, self.generated_tokens, self.prefix_queries)
        after = (later.running, later.waiting, later.kv_usage, later.generated_tokens, later.prefix_queries)
        return later.generated_tokens is not None and before == after


@dataclass(frozen=True, slots=True)
class ServerReport:
    """All ranks of one server, by rank, and when its process started (Unix seconds)."""

    ranks: Mapping[int, LoadReport]
    process_start_s: float | None
    resets: float = 0.0  # how often somebody asked its process for what empties the prefix cache, with success


def parse_metrics(text: str) -> ServerReport:
    """Read a /metrics page. What is not a number is left out; anything else on the page is ignored."""
    ranks: dict[int, LoadReport] = {}
    process_start_s, resets = None, 0.0
    for name, label_text, value_text in _SAMPLE.findall(text):
        value = _number(value_text)
        if value is None:
            continue
        if name == _STARTED:
            process_start_s = value
            continue
        labels = dict(_LABEL.findall(label_text))
        if name == _ASKED:
            resets += value if labels.get("handler") in RESETTING and labels.get("status") == "2xx" else 0.0
            continue
        report = ranks.setdefault(_rank(labels), LoadReport())
        if name == _CONFIG:
            report.block_size = _count(labels.get("block_size"))
            report.kv_blocks = _count(labels.get("num_gpu_blocks"))
            report.kv_tokens = _count(labels.get("kv_cache_size_tokens"))
            report.prefix_caching = {"True": True, "False": False}.get(labels.get("enable_prefix_caching", ""))
        elif name == _SLEEP:
            if labels.get("sleep_state") == "awake":
                report.asleep = not value
        elif name == _CACHED:
            report.cached_by_source[labels.get("source", "")] = value
        else:
            setattr(report, _NAMES[name], value)
    for report in ranks.values():
        _settle_capacity(report, len(ranks))
    return ServerReport(ranks, process_start_s, resets)


def _settle_capacity(report: LoadReport, ranks: int) -> None:
    """A server of several ranks tells all of them the sum of their blocks, but each its own tokens (vLLM 0.32,
    ``v1/engine/core_client.py``). Tokens of hybrid models are not simply blocks times their size; older ones tell none.
    """
    if report.kv_blocks is not None:
        report.kv_blocks = report.kv_blocks // ranks or None
    if report.kv_tokens is None and report.kv_blocks is not None and report.block_size is not None:
        report.kv_tokens = report.kv_blocks * report.block_size


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
