"""Every gauge of the gateway has a rule, and the rules neither double nor hide."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.workers.gauge_rules import GAUGES, one_of
from tests.end_to_end.house import house
from tests.fakes.redis_servers import RedisServer


async def test_every_gauge_that_a_gateway_shows_has_its_rule() -> None:
    """A new one must be thought about: does it add up, or do all workers see the same thing?"""
    with RedisServer() as redis:
        async with house(["a"], redis_url=redis.url) as home:
            await home.chat("hello")
            families = list(text_string_to_metric_families(await home.metrics()))

    gauges = {family.name for family in families if family.type == "gauge" and not family.name.endswith("_created")}
    assert "prefixway_replica_up" in gauges
    assert gauges - GAUGES.keys() == set()


@pytest.mark.parametrize(
    ("name", "values", "one"),
    [
        ("prefixway_replica_inflight", [3, 4], 7),
        ("prefixway_replica_up", [0, 1], 1),
        ("prefixway_redis_up", [0, 1], 0),
        ("prefixway_prefill_calibration", [1, 2], 1.5),
        ("prefixway_something_new", [1, 2], 2),
    ],
)
def test_what_is_counted_adds_up_and_what_is_seen_does_not(name: str, values: list[float], one: float) -> None:
    """An unknown gauge is never doubled."""
    assert one_of(name, values) == one
