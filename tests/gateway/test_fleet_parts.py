"""What finds replicas and watches them is made as the settings say."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from gateway.fleet.discovery.static import StaticDiscovery
from gateway.fleet.event_source import EventSource
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet_parts import FleetParts, discovery_of, probes_of
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.background import running
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.waiting import eventually
from tests.gateway.examples import Clock


def made(**settings: str) -> Settings:
    return Settings.from_env({f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()})


async def found(settings: Settings) -> dict[str, EventSource | None]:
    """Event sources by server id, once all were probed."""
    pool = ReplicaPool()
    discovery, probes = discovery_of(settings, pool, monotonic), probes_of(settings, pool, monotonic)
    async with running(discovery.run()), running(probes.run()):
        await eventually(lambda: pool.servers and all(server.replicas for server in pool.servers))
    return {server.id: server.event_sources.get(0) for server in pool.servers}


@pytest.mark.parametrize("events", ["auto", "off", "fixed"])
async def test_where_events_are(events: str) -> None:
    """Asked of each replica, nowhere, or where the setting says, whatever the replica says itself."""
    fixed = "tcp://{host}:7777,replay=tcp://{host}:7778"
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        settings = made(replicas=f"a={replica.url}", kv_events=fixed if events == "fixed" else events)
        sources = await found(settings)
        publisher = replica.publisher
        told = EventSource(publisher.endpoint, publisher.replay_endpoint, publisher.topic)

    assert sources == {
        "a": {"auto": told, "off": None, "fixed": EventSource("tcp://127.0.0.1:7777", "tcp://127.0.0.1:7778")}[events]
    }


@pytest.mark.parametrize("events", ["auto", "off"])
async def test_a_replica_that_names_its_own_source_is_believed_unless_events_are_off(events: str) -> None:
    """In the list of replicas."""
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        settings = made(replicas=f"a={replica.url}?events=tcp://127.0.0.1:7777", kv_events=events)
        sources = await found(settings)

    source = sources["a"]
    assert (source is None) == (events == "off")
    assert source is None or source.endpoint == "tcp://127.0.0.1:7777"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"replicas": "ftp://x"}, "PREFIXWAY_REPLICAS: "),
        ({"replicas_file": "/nowhere/replicas.yaml"}, "PREFIXWAY_REPLICAS_FILE: .*cannot be read"),
    ],
)
def test_a_list_that_is_none_names_its_setting(settings: dict[str, str], fault: str) -> None:
    """At the start, not at the first probe."""
    with pytest.raises(SettingsError, match=fault):
        discovery_of(made(**settings), ReplicaPool(), monotonic)


def test_an_address_of_events_that_is_none_names_its_setting() -> None:
    """Either of the two."""
    for events in ("tcp://{hots}:1", "tcp://{host}:1,replay=tcp://{hots}:1"):
        with pytest.raises(SettingsError, match=r"PREFIXWAY_KV_EVENTS: .* is not a ZeroMQ endpoint"):
            probes_of(made(kv_events=events), ReplicaPool(), monotonic)


async def test_a_file_of_replicas_is_read(tmp_path: Path) -> None:
    """Beside those of the setting."""
    file = tmp_path / "replicas.yaml"
    file.write_text("- b=http://127.0.0.1:2\n")
    pool = ReplicaPool()
    settings = made(replicas="a=http://127.0.0.1:1", replicas_file=str(file))
    async with running(discovery_of(settings, pool, monotonic).run()):
        await eventually(lambda: sorted(server.id for server in pool.servers) == ["a", "b"])


async def test_pods_are_found_as_the_setting_says(tmp_path: Path) -> None:
    """And how that goes is to be seen."""
    async with KubernetesApi(tls=True) as api:
        api.add("a", port=8001)
        account = api.write_account(tmp_path)
        settings = made(
            discovery="kubernetes:app=vllm",
            discovery_interval_s="0.02",
            kubernetes_api=api.url,
            kubernetes_account=str(account),
        )
        pool = ReplicaPool()
        parts = FleetParts(settings, pool, monotonic)
        assert (parts.discovery.answered.is_set(), list(pool.servers)) == (False, [])
        async with running(parts.discovery.run()):
            await parts.discovery.answered.wait()
            found = [server.id for server in pool.servers]
            api.may_list = False
            await eventually(lambda: "403" in parts.discovery.fault)

    assert found == [api.server_id("a")]
    assert parts.status()["how"] == "kubernetes:app=vllm"
    assert {metric.name for collector in parts.collectors for metric in collector.collect()} >= {
        "prefixway_discovery_age_seconds"
    }


def test_that_replicas_are_not_looked_up_any_more_is_a_symptom() -> None:
    clock = Clock()
    parts = FleetParts(made(discovery="dns:vllm.models:8000"), ReplicaPool(), clock)
    early = list(parts.symptoms())
    clock.now += 40

    assert early == []
    assert [symptom.name for symptom in parts.symptoms()] == ["discovery_stale"]


async def test_replicas_that_are_named_are_found_already() -> None:
    """There is nothing that could grow old."""
    clock = Clock()
    parts = FleetParts(made(replicas="http://127.0.0.1:1"), ReplicaPool(), clock)
    clock.now += 40

    assert isinstance(parts.discovery, StaticDiscovery)
    assert (parts.discovery.answered.is_set(), list(parts.symptoms())) == (True, [])


@pytest.mark.parametrize("name", ["dns:vllm.models:8000", "dns:_http._tcp.vllm.models"])
async def test_names_are_looked_up_as_the_setting_says(name: str) -> None:
    """Nobody is asked before it runs."""
    parts = FleetParts(made(discovery=name), ReplicaPool(), monotonic)

    assert not parts.discovery.answered.is_set()
    assert parts.status()["how"] == name


def test_an_api_that_is_none_names_its_setting() -> None:
    with pytest.raises(SettingsError, match="PREFIXWAY_KUBERNETES_API: must be a URL like"):
        FleetParts(made(discovery="kubernetes:app=vllm", kubernetes_api="10.0.0.1:443"), ReplicaPool(), monotonic)
