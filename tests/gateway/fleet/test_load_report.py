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
REPORT = LoadReport(
    running=3.0,
    waiting=7.0,
    kv_usage=0.25,
    prefix_queries=97.0,
    prefix_hits=64.0,
    generated_tokens=40.0,
    block_size=32,
    kv_blocks=256,
    kv_tokens=8192,
)


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


def test_whether_blocks_are_kept_for_later_prompts_is_told_or_not() -> None:
    """By a label of the cache's configuration."""
    line = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="%s",engine="0"} 1.0\n'

    assert [parse_metrics(line % word).ranks[0].prefix_caching for word in ("True", "False", "?")] == [
        True,
        False,
        None,
    ]


def test_capacity_is_in_tokens_and_for_each_rank() -> None:
    """vLLM tells each rank the blocks of all of them, but its own tokens. Older ones tell blocks alone."""
    rank = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="200",%sengine="%d"} 1\n'
    current = parse_metrics("".join(rank % ('kv_cache_size_tokens="1000",', number) for number in (0, 1)))
    older = parse_metrics("".join(rank % ("", number) for number in (0, 1)))

    assert [(load.kv_blocks, load.kv_tokens) for load in current.ranks.values()] == [(100, 1000)] * 2
    assert [(load.kv_blocks, load.kv_tokens) for load in older.ranks.values()] == [(100, 1600)] * 2


@pytest.mark.parametrize(("awake", "asleep"), [("0.0", True), ("1.0", False), ("nan", None)])
def test_sleep_is_told_by_one_of_its_states(awake: str, asleep: bool | None) -> None:
    """At whatever level, which says how and not whether."""
    states = {"awake": awake, "weights_offloaded": "0.0", "discard_all": "0.0"}
    text = "".join(f'vllm:engine_sleep_state{{engine="0",sleep_state="{s}"}} {value}\n' for s, value in states.items())

    assert parse_metrics("vllm:num_requests_running 1\n" + text).ranks[0].asleep is asleep


def test_resets_are_counted_by_those_who_were_asked() -> None:
    """Successful ones, of whatever empties the prefix cache."""
    report = parse_metrics(
        'http_requests_total{handler="/reset_prefix_cache",method="POST",status="2xx"} 3.0\n'
        'http_requests_total{handler="/reset_prefix_cache",method="POST",status="4xx"} 9.0\n'
        'http_requests_total{handler="/sleep",method="POST",status="2xx"} 2.0\n'
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 50.0\n'
    )

    assert (report.resets, dict(report.ranks)) == (5.0, {})


def test_what_became_less_is_another_process() -> None:
    """Counters only grow; what is not told says nothing."""
    before = LoadReport(generated_tokens=10.0, prefix_queries=5.0)

    assert not before.is_older_process(before)
    assert not before.is_older_process(LoadReport())
    assert before.is_older_process(LoadReport(generated_tokens=9.0))
    assert before.is_older_process(LoadReport(generated_tokens=20.0, prefix_queries=4.0))


def test_hits_beyond_the_gpu_by_tier() -> None:
    """L1 and L2: what was found there in all, and from where, by vLLM's names."""
    page = """\
vllm:external_prefix_cache_hits_total{engine="1",model_name="tiny"} 96.0
vllm:prompt_tokens_cached_by_source_created{engine="1",model_name="tiny",source="host"} 1.7e+09
vllm:prompt_tokens_cached_by_source_total{engine="1",model_name="tiny",source="device"} 32.0
vllm:prompt_tokens_cached_by_source_total{engine="1",model_name="tiny",source="host"} 64.0
"""
    report = parse_metrics(page).ranks[1]

    assert (report.external_hits, report.cached_by_source) == (96.0, {"device": 32.0, "host": 64.0})
