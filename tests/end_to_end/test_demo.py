"""The demo does its main job: the same load, and prefix routing takes visibly more of it from the caches."""

from __future__ import annotations

import asyncio

import httpx

from gateway.cli import _demo_gateway
from loadtest.demo import DemoOptions, StrategyResult, run_demo


async def test_kv_aware_beats_round_robin_on_the_demos_load() -> None:
    """At least 1.3 times its share of cached prompt tokens, as the replicas counted them; nothing failed.

    Each on replicas of its own, at the same time: that spares half of the waiting.
    """
    lines: list[str] = []

    async def played(strategy: str) -> StrategyResult:
        options = DemoOptions(strategies=(strategy,))
        (result,) = await run_demo(_demo_gateway, out=lines.append, options=options)
        return result

    rotation, aware = await asyncio.gather(played("round_robin"), played("kv_aware"))

    assert aware.cached_share >= 1.3 * rotation.cached_share
    assert (rotation.errors, aware.errors) == (0, 0)
    assert sum(aware.requests) == sum(rotation.requests)
    assert [line for line in lines if "kv_aware" in line and "%" in line]
    assert [line for line in lines if "http://127.0.0.1:" in line]


async def test_the_url_of_the_demo_serves() -> None:
    """Its gateway answers an OpenAI request on the URL it names, here without replicas: 503, and why."""
    async with _demo_gateway([], "kv_aware") as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        answer = await client.post("/v1/completions", json={"prompt": "x"})

    assert answer.status_code == 503
    assert "No replica is configured" in answer.text
