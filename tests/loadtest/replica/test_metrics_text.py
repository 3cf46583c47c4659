"""/metrics, read by a Prometheus parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadtest.replica.options import MetricsDialect
from tests.loadtest.replica.running import MODEL, chat, running

Samples = dict[str, tuple[dict[str, str], float]]


async def scrape(dialect: MetricsDialect) -> Samples:
    """Each sample's name, labels and value, after one request was asked twice."""
    async with running(metrics_dialect=dialect, capacity_blocks=100) as (_, client):
        for _ in range(2):
            await client.post("/v1/chat/completions", json=chat("turtle " * 50))
        text = (await client.get("/metrics")).text
    families = text_string_to_metric_families(text)
    return {sample.name: (sample.labels, sample.value) for family in families for sample in family.samples}


async def test_speaks_the_current_names() -> None:
    """Load, cache and its configuration under 0.32's names, with the engine's label."""
    samples = await scrape("0.32")

    labels, hits = samples["vllm:prefix_cache_hits_total"]
    assert labels == {"engine": "0", "model_name": MODEL}
    assert 0 < hits < samples["vllm:prefix_cache_queries_total"][1]
    assert samples["vllm:kv_cache_usage_perc"][1] == 0
    assert samples["vllm:num_requests_running"][1] + samples["vllm:num_requests_waiting"][1] == 0
    assert samples["process_start_time_seconds"][1] > 1.7e9
    config = samples["vllm:cache_config_info"][0]
    assert (config["block_size"], config["num_gpu_blocks"]) == ("16", "101")
    assert samples["vllm:time_to_first_token_seconds_count"][1] == 2


async def test_speaks_the_older_names() -> None:
    """What 0.8 called the cache's usage and hits."""
    samples = await scrape("0.8")

    assert samples["vllm:gpu_cache_usage_perc"] == ({"model_name": MODEL}, 0.0)
    assert samples["vllm:gpu_prefix_cache_hits_total"][1] > 0
    assert "vllm:kv_cache_usage_perc" not in samples


@pytest.mark.parametrize("ranks", [1, 3])
async def test_each_rank_is_an_engine(ranks: int) -> None:
    """One sample a rank, one header a family."""
    async with running(ranks=ranks) as (_, client):
        text = (await client.get("/metrics")).text

    assert text.count("\nvllm:num_requests_running{") == ranks
    assert text.count("# TYPE vllm:num_requests_running ") == 1
