"""The indexer alone: it follows, it writes, it hands over; it serves nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.index_service import IndexService, running_index_service
from gateway.kv.tiers import Tier
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from gateway.shared.orders.fleet_orders import FleetOrders
from gateway.shared.orders.order import DRAIN, Order
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.shared.link.links import linked

LOOPBACK = {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("METRICS_", "ADMIN_")}
A = ReplicaKey("simulated", "a")


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def replica() -> AsyncIterator[SimulatedReplica]:
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        yield replica


def made(redis_url: str, replica: SimulatedReplica, **settings: str) -> Settings:
    return Settings.from_env(
        {
            **LOOPBACK,
            "PREFIXWAY_REDIS_URL": redis_url,
            "PREFIXWAY_REDIS_TIMEOUT_S": "0.3",
            "PREFIXWAY_REPLICAS": f"a={replica.url}",
            "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
            **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
        }
    )


async def filled(replica: SimulatedReplica) -> None:
    """Some prompt is in its cache."""
    async with httpx.AsyncClient(base_url=replica.url, trust_env=False) as client:
        body = {"model": "simulated", "prompt": "word " * 200, "max_tokens": 1}
        (await client.post("/v1/completions", json=body)).raise_for_status()


async def test_it_writes_what_a_replica_holds(redis: RedisServer, replica: SimulatedReplica) -> None:
    """And says so on its ports; whatever the setting says of who indexes: this is who does."""
    async with (
        running_index_service(made(redis.url, replica, indexer="outside", admin_token="t0")) as service,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        await filled(replica)
        together = service.together
        await eventually(lambda: together.writer.writes(A) and not together.writer.is_busy)
        await eventually(lambda: together.memory.owned(A, Tier.L0) == len(replica.cache.resident_prefixes()) > 0)
        admin = f"http://127.0.0.1:{service.admin.port}/status"
        refused = await client.get(admin)
        status = (await client.get(admin, headers={"authorization": "Bearer t0"})).json()
        metrics = await client.get(f"http://127.0.0.1:{service.metrics.port}/metrics")
        ready = await client.get(f"http://127.0.0.1:{service.metrics.port}/readyz")

    assert refused.status_code == 401
    assert status["index"]["writes"] == ["a"]
    assert [member["kind"] for member in status["index"]["members"]] == ["indexer"]
    assert "prefixway_shared_index_written 1.0" in metrics.text
    assert 'prefixway_members{kind="indexer"} 1.0' in metrics.text
    assert ready.status_code == 200


async def test_it_finds_pods_by_itself(redis: RedisServer, replica: SimulatedReplica) -> None:
    """By the names that gateways call them; and how that goes is told."""
    async with KubernetesApi(token=None) as api:
        api.add("a", port=replica.http.port)
        finder = {"discovery": "kubernetes:default/app=vllm", "kubernetes_api": api.url, "replicas": ""}
        async with (
            running_index_service(made(redis.url, replica, **finder)) as service,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            key = ReplicaKey("simulated", api.server_id("a"))
            await eventually(lambda: service.together.writer.writes(key))
            status = (await client.get(f"http://127.0.0.1:{service.admin.port}/status")).json()
            metrics = await client.get(f"http://127.0.0.1:{service.metrics.port}/metrics")

    assert (status["discovery"]["how"], status["discovery"]["fault"]) == ("kubernetes:default/app=vllm", "")
    assert "prefixway_discovery_age_seconds" in metrics.text


async def test_it_takes_no_orders(redis: RedisServer, replica: SimulatedReplica) -> None:
    """It chooses nothing."""
    async with running_index_service(made(redis.url, replica)) as service, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"http://127.0.0.1:{service.admin.port}/drain", json={"server": "a"})

    assert answer.status_code == 404


async def test_it_forgets_a_replica_that_is_drained(redis: RedisServer, replica: SimulatedReplica) -> None:
    """Whoever ordered it. Its events are followed no longer, and what was written of it goes; undrained, it is back."""
    async with running_index_service(made(redis.url, replica)) as service, linked(redis.url) as link:
        together = service.together
        orders = FleetOrders(link, together.keys, wall_clock=lambda: datetime.now(UTC).timestamp())
        await filled(replica)
        await eventually(lambda: together.writer.writes(A) and together.memory.owned(A, Tier.L0) > 0)
        await orders.give(Order(DRAIN, "a", id="1"))
        await eventually(lambda: not together.events.feeds and not together.writer.writes(A))
        await eventually(lambda: not redis.client().hexists(together.keys.registry("simulated"), "r:a"))
        drained = together.memory.block_owners()
        await orders.give(Order(DRAIN, "a", cleared=True, id="2"))
        await eventually(lambda: together.writer.writes(A) and together.memory.owned(A, Tier.L0) > 0)

    assert drained == 0


async def test_a_planned_stop_leaves_everything_to_the_next_one(redis: RedisServer, replica: SimulatedReplica) -> None:
    """Entries and a state, and no lock, and nobody in the members' list."""
    async with running_index_service(made(redis.url, replica)) as service:
        await filled(replica)
        await eventually(lambda: service.together.writer.writes(A) and not service.together.writer.is_busy)
        keys = service.together.keys
    client = redis.client()

    assert client.exists(keys.writer(A)) == 0
    assert client.hexists(keys.registry("simulated"), "r:a")
    assert client.llen(keys.handover(A)) > 1
    assert client.hkeys(keys.fleet("records")) == []


async def test_without_redis_it_waits_for_it(redis: RedisServer, replica: SimulatedReplica) -> None:
    """It starts, is ready, and writes when there is one; a sidecar must not keep its pod from being ready."""
    async with TcpProxy(redis.port) as proxy:
        await proxy.refuse()
        async with running_index_service(made(f"redis://127.0.0.1:{proxy.port}", replica)) as service:
            await filled(replica)
            await eventually(service.is_ready)
            await eventually(lambda: service.together.memory.block_owners() > 0)
            assert not service.together.writer.written
            await proxy.heal()
            await eventually(lambda: service.together.writer.writes(A))
            assert redis.client().exists(service.together.keys.writer(A))


async def test_it_is_not_ready_before_a_replica_is_and_when_it_stops(
    redis: RedisServer, replica: SimulatedReplica
) -> None:
    """Whatever Redis does."""
    service = IndexService(made(redis.url, replica))
    assert not service.is_ready()
    async with running_index_service(made(redis.url, replica)) as running:
        await eventually(running.is_ready)
        running.stop()
        assert not running.is_ready()
    service.metrics.close()
    service.admin.close()


@pytest.mark.parametrize(
    "settings",
    [{}, {"PREFIXWAY_REDIS_URL": "redis://127.0.0.1:1", "PREFIXWAY_INDEX": "memory"}],
)
async def test_without_an_index_in_redis_there_is_nothing_to_do(settings: dict[str, str]) -> None:
    """An error that names the setting."""
    with pytest.raises(SettingsError, match="PREFIXWAY_REDIS_URL"):
        IndexService(Settings.from_env({**LOOPBACK, **settings}))
