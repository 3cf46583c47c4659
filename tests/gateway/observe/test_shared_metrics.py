"""Redis and what lies there, as Prometheus sees it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.observe.shared_metrics import LoadTeller, SharedMetrics
from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_errors import RedisRefused
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.peer_load import LoadStats
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import RedisPair
from tests.gateway.shared.link.links import PATIENT_S, echo, until_given_up

A, B = ReplicaKey("m", "a"), ReplicaKey("m", "b")


class Load:
    """What other gateways told, once they are heard."""

    stats = LoadStats(sent=1, unsent=2, received=3, missed=4, unreadable=5, refused=6, peers=7, peer_inflight=8)


class Scrape:
    """One process's metrics."""

    def __init__(self, link: RedisLink) -> None:
        self.pair = RedisPair(link)
        self.load: LoadTeller | None = None
        self.metrics = SharedMetrics(link, self.pair.writer, self.pair.reader, lambda: self.load)
        self._registry = CollectorRegistry()
        self._registry.register(self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"prefixway_{name}", labels)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def link(server: RedisServer) -> AsyncIterator[RedisLink]:
    link = RedisLink(RedisTarget.parse(server.url), clock=time.monotonic, budget_s=PATIENT_S, timeout_s=0.2)
    yield link
    await link.close()


async def test_what_is_written_and_read(link: RedisLink, server: RedisServer) -> None:
    """Replicas, blocks, epochs by reason; entries of other secrets and such that make no sense."""
    scrape = Scrape(link)
    assert scrape.value("redis_lookups_total", outcome="ok") == 0
    scrape.pair.begin(A, {Tier.L0: [1]})
    await scrape.pair.settle()
    scrape.pair.apply(A, Tier.L0, [2, 3], [1])
    foreign = msgspec.msgpack.encode({"secret_id": "another"})
    server.client().hset(
        scrape.pair.keys.registry("m"), mapping={"v": "x", "r:b": b"5 " + foreign, "r:c": b"rubbish", "other": b"?"}
    )
    await scrape.pair.match({16: [2, 3]}, [A])
    scrape.metrics.looked_up(0.0004)

    assert scrape.value("redis_up") == 1
    assert scrape.value("redis_connections_total") == 1
    assert scrape.value("redis_lookups_total", outcome="ok") == 1
    assert scrape.value("redis_lookup_seconds_count") == 1
    assert scrape.value("redis_lookup_seconds_bucket", le="0.0005") == 1
    assert [scrape.value(f"shared_index_{name}") for name in ("replicas", "foreign", "unreadable")] == [1, 1, 1]
    assert (scrape.value("shared_index_written"), scrape.value("shared_index_blocks_written_total")) == (1, 3)
    assert scrape.value("shared_index_epochs_total", reason="takeover") == 1


async def test_losses_and_refusals(link: RedisLink, server: RedisServer) -> None:
    """Locks that went to others, writes that Redis refused, and that it does not answer."""
    scrape = Scrape(link)
    for key in (A, B):
        scrape.pair.begin(key, {})
    await scrape.pair.settle()
    server.client().set(scrape.pair.keys.writer(A), "another process")
    scrape.pair.writer.renew_now()
    await scrape.pair.writer.round()
    assert (scrape.value("shared_index_written"), scrape.value("shared_index_locks_lost_total")) == (1, 1)

    server.client().config_set("maxmemory", "1mb")
    scrape.pair.apply(B, Tier.L0, range(10), [])
    with pytest.raises(RedisRefused):
        await scrape.pair.writer.round()
    assert scrape.value("shared_index_refused_total", code="OOM") == 1
    assert scrape.value("redis_refused_total", code="OOM") == 1

    with server.paused():
        await until_given_up(link, echo())
    assert scrape.value("redis_up") == 0
    assert scrape.value("redis_breaker_openings_total") == 1
    assert (scrape.value("redis_lookups_total", outcome="error") or 0) >= 3


async def test_what_others_tell_of_their_load(link: RedisLink) -> None:
    """Only where load is shared."""
    scrape = Scrape(link)
    assert scrape.value("load_peers") is None

    scrape.load = Load()

    outcomes = ("sent", "unsent", "received", "missed", "unreadable", "refused")
    assert [scrape.value("load_messages_total", outcome=outcome) for outcome in outcomes] == [1, 2, 3, 4, 5, 6]
    assert (scrape.value("load_peers"), scrape.value("load_peer_inflight")) == (7, 8)
