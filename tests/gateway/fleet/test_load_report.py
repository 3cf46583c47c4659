"""Replicas' metrics are read under current and older names, and what is missing is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.load_report import LoadReport, parse_metrics

CURRENT = """\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79596717937e+09
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 5.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 97.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 64.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 97.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 40.0
vllm:cache_config_info{_block_size_resolved="True",block_size="32",num_gpu_blocks="256",engine="0"} 1.0
"""
OLDER = """\
vllm:num_requests_running{model_name="tiny"} 3.0
vllm:num_requests_waiting{model_name="tiny"} 7.0
vllm:gpu_cache_usage_perc{model_name="tiny"} 0.25
vllm:gpu_prefix_cache_queries_total{model_name="tiny"} 97.0
vllm:gpu_prefix_cache_hits_total{model_name="tiny"} 64.0
vllm:prompt_tokens_total{model_name="tiny"} 97.0
vllm:generation_tokens_total{model_name="tiny"} 40.0
vllm:cache_config_info{block_size="32",num_gpu_blocks="256"} 1.0
"""
REPORT = LoadReport(3.0, 7.0, 0.25, 97.0, 64.0, 40.0, 32, 256)


@pytest.mark.parametrize(("text", "start_s"), [(CURRENT, 1.79596717937e09), (OLDER, None)])
def test_current_and_older_names_mean_the_same(text: str, start_s: float | None) -> None:
    """vLLM 0.32's page and one of before 0.11 give the same report."""
    report = parse_metrics(text)

    assert report.ranks == {0: REPORT}
    assert report.process_start_s == start_s


def test_ranks_are_apart() -> None:
    """The engine label is the data-parallel rank."""
    report = parse_metrics('vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} 2\n')

    assert {rank: load.running for rank, load in report.ranks.items()} == {0: 1, 1: 2}


def test_missing_is_unknown_and_nan_is_missing() -> None:
    """No made-up zero."""
    report = parse_metrics('vllm:num_requests_running{engine="0"} 1\nvllm:kv_cache_usage_perc{engine="0"} NaN\n')

    assert report.ranks[0].kv_usage is None
    assert report.ranks[0].waiting is None


@given(st.text(alphabet='vllm:kv_cache_usage_perc{}engine="0, \n.1e9\\', max_size=300))
def test_any_page_is_survived(text: str) -> None:
    """Garbage is ignored."""
    parse_metrics(text)
