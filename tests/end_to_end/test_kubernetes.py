"""A whole gateway whose replicas are pods: they come, go, fall out of readiness, and the API is not always there."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from gateway.app import Gateway
from gateway.settings import Settings
from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST, House, house
from tests.fakes.background import running
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.scripted_server import ScriptedServer, Wire
from tests.fakes.waiting import eventually

LONG = "tell me about the sea and its ships, and of the winds that drive them " * 40


class Cluster:
    """A gateway that finds pods, each of which is a simulated replica."""

    def __init__(self, api: KubernetesApi, home: House, stack: AsyncExitStack) -> None:
        self.api = api
        self.home = home
        self._stack = stack

    async def start(self, name: str, options: ReplicaOptions | None = None, **pod: Any) -> SimulatedReplica:
        """A pod of that name; returns once it is healthy."""
        sim = await self._stack.enter_async_context(SimulatedReplica(options or ReplicaOptions(speeds=FAST)))
        self.home.replicas[name] = sim
        self.api.add(name, sim.options.host, port=sim.http.port, **pod)
        await eventually(lambda: self.sees(name, "healthy"))
        return sim

    def sees(self, name: str, attribute: str) -> bool:
        """What the gateway knows of a pod. Of one that it does not know: no."""
        server = self.home.gateway.pool.server(self.api.server_id(name))
        return server is not None and bool(getattr(server, attribute))

    def known(self) -> list[str]:
        """The names of all that the gateway knows."""
        return sorted(server.id.partition("@")[0] for server in self.home.gateway.pool.servers)

    async def page(self, path: str) -> Any:
        """Of the admin port."""
        return (await self.home.client.get(f"http://127.0.0.1:{self.home.gateway.admin.port}{path}")).json()


@asynccontextmanager
async def _cluster(folder: Path, **settings: str) -> AsyncIterator[Cluster]:
    async with (
        KubernetesApi(tls=True) as api,
        AsyncExitStack() as stack,
        house([], None, **_found(api, folder), **settings) as home,
    ):
        yield Cluster(api, home, stack)


def _found(api: KubernetesApi, folder: Path) -> Mapping[str, str]:
    return {
        "discovery": "kubernetes:app=vllm",
        "discovery_interval_s": "0.05",
        "kubernetes_api": api.url,
        "kubernetes_account": str(api.write_account(folder)),
    }


async def test_a_pod_that_is_told_to_stop_gets_nothing_new_and_ends_what_runs(tmp_path: Path) -> None:
    """Its stream arrives whole, counts as no failure, and what was known of its caches is gone at once."""
    async with _cluster(tmp_path) as cluster:
        sim = await cluster.start("a")
        sim.faults.add(Fault(stall_after_chunks=1))
        stream = asyncio.ensure_future(cluster.home.chat(LONG, max_tokens=9, stream=True))
        await eventually(lambda: sim.faults.stalled == 1 and cluster.home.gateway.fellowship.memory.block_owners() > 0)
        server = cluster.home.gateway.pool.server(cluster.api.server_id("a"))
        await cluster.start("b")
        cluster.api.set_ready("a", False)
        cluster.api.terminate("a")
        await eventually(lambda: cluster.known() == ["b"])
        owners = cluster.home.gateway.fellowship.memory.block_owners()
        answers = [await cluster.home.chat(f"{number}") for number in range(4)]
        metrics = await cluster.home.metrics()
        sim.faults.release()
        answer = await stream
        await sim.stop()
        cluster.api.delete("a")

    assert owners == 0
    assert {answer.headers["x-prefixway-replica"] for answer in answers} == {cluster.api.server_id("b")}
    assert 'replica="a@' not in "".join(line for line in metrics.splitlines() if "prefixway_replica_up" in line)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert server is not None
    assert server.breaker.is_closed


async def test_a_pod_that_is_not_ready_is_held_back_and_what_it_holds_is_kept(tmp_path: Path) -> None:
    """It is better than nobody; ready again, it is found to hold what it held."""
    async with _cluster(tmp_path) as cluster:
        await cluster.start("a")
        await cluster.home.chat(LONG)
        await eventually(lambda: cluster.home.gateway.fellowship.memory.block_owners() > 0)
        cluster.api.set_ready("a", False)
        await eventually(lambda: cluster.sees("a", "held_back"))
        alone = await cluster.home.chat(LONG)
        await cluster.start("b")
        held = await cluster.home.chat(LONG)
        (page, *_) = await cluster.page("/replicas")
        metrics = await cluster.home.metrics()
        cluster.api.set_ready("a", True)
        await eventually(lambda: not cluster.sees("a", "held_back"))
        again = await cluster.home.chat(LONG)

    ids = {name: cluster.api.server_id(name) for name in "ab"}
    assert alone.headers["x-prefixway-replica"] == ids["a"]
    assert held.headers["x-prefixway-replica"] == ids["b"]
    assert (page["id"], page["held_back"], page["healthy"]) == (ids["a"], True, True)
    assert f'prefixway_replica_held_back{{replica="{ids["a"]}"}} 1.0' in metrics
    assert int(again.headers["x-prefixway-matched"].partition("l0=")[2]) > 500


async def test_while_the_api_is_away_or_refuses_nobody_is_lost(tmp_path: Path) -> None:
    """The pages say what is wrong; afterwards the fleet is as the API says it is. A token that was rotated is used."""
    async with _cluster(tmp_path) as cluster:
        await cluster.start("a")
        await cluster.start("b")
        cluster.api.kill()
        await eventually(lambda: _fault(cluster).endswith("cannot be reached: All connection attempts failed"))
        away = await cluster.home.chat("x")
        cluster.api.delete("b")
        await cluster.api.revive()
        await eventually(lambda: cluster.known() == ["a"])
        cluster.api.token = "rotated"
        await eventually(lambda: "answers 401" in _fault(cluster))
        refused = await cluster.home.chat("x")
        page = (await cluster.page("/status"))["discovery"]
        cluster.api.write_account(tmp_path)
        await eventually(lambda: not _fault(cluster))
        await cluster.start("c")
        metrics = await cluster.home.metrics()

    assert [away.status_code, refused.status_code] == [200, 200]
    assert (page["how"], page["answered"]) == ("kubernetes:app=vllm", True)
    assert "answers 401" in page["fault"]
    assert page["failures"] >= 2
    assert "rotated" not in str(page)
    assert 0 <= float(re.findall(r"^prefixway_discovery_age_seconds (.*)$", metrics, re.MULTILINE)[0]) < 20
    assert "\nprefixway_discovery_failures_total 0.0" not in metrics


def _fault(cluster: Cluster) -> str:
    return str(cluster.home.gateway.fleet.discovery.fault)


async def test_a_pod_that_probes_hang_at_goes_as_any_other(tmp_path: Path) -> None:
    """Whatever its probes find while it is being deleted."""
    async with _cluster(tmp_path) as cluster, ScriptedServer(Wire.until_gone) as hole:
        cluster.api.add("hole", port=hole.port)
        await eventually(lambda: hole.requests)
        await cluster.start("a")
        cluster.api.delete("hole")
        await eventually(lambda: cluster.known() == ["a"])
        await eventually(lambda: hole.open_connections == 0)
        cluster.api.add("hole", port=hole.port)
        await eventually(lambda: cluster.known() == ["a", "hole"])


async def test_annotations_say_where_events_are_and_what_must_be_served(tmp_path: Path) -> None:
    """With a replica that does not tell its events itself; and one that has taken the address of another."""
    options = ReplicaOptions(speeds=FAST, lists_event_sources=False)
    async with _cluster(tmp_path) as cluster, SimulatedReplica(options) as sim:
        port = sim.publisher.endpoint.rpartition(":")[2]
        notes = {"prefixway.io/kv-events": port, "prefixway.io/model": "simulated"}
        cluster.api.add("a", port=sim.http.port, annotations=notes)
        await eventually(lambda: cluster.sees("a", "healthy"))
        await cluster.home.chat(LONG)
        await eventually(lambda: cluster.home.gateway.fellowship.memory.block_owners() > 0)
        cluster.api.add("a", port=sim.http.port, annotations=notes | {"prefixway.io/model": "another"})
        await eventually(lambda: "serves simulated, not another" in _servers_fault(cluster, "a"))
        refused = await cluster.home.chat("x")

    assert refused.status_code == 503


def _servers_fault(cluster: Cluster, name: str) -> str:
    server = cluster.home.gateway.pool.server(cluster.api.server_id(name))
    return "" if server is None else server.fault


def _has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")
async def test_pods_with_ipv6_addresses_are_reached(tmp_path: Path) -> None:
    """By probes and requests."""
    async with _cluster(tmp_path) as cluster:
        await cluster.start("six", ReplicaOptions(speeds=FAST, host="::1", kv_events=False))
        answer = await cluster.home.chat("x")
        (page,) = await cluster.page("/replicas")

    assert answer.status_code == 200
    assert page["url"].startswith("http://[::1]:")
    assert page["kv_blocks"]


async def test_that_pods_are_not_found_any_more_is_a_finding(tmp_path: Path) -> None:
    """After half a minute, here of a clock that is set; it ends with the next list."""
    late_s = 0.0
    async with KubernetesApi(tls=True) as api:
        given = {f"PREFIXWAY_{name.upper()}": value for name, value in _found(api, tmp_path).items()}
        given |= {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")}
        gateway = Gateway(Settings.from_env(given), linger_s=0, clock=lambda: monotonic() + late_s)
        async with running(gateway.run()), httpx.AsyncClient(trust_env=False) as client:
            await eventually(lambda: api.requests)
            before = gateway.proof.findings()
            api.may_list = False
            await eventually(lambda: "403" in str(gateway.fleet.discovery.fault))
            late_s = 40.0
            await eventually(gateway.proof.findings)
            (finding,) = gateway.proof.findings()
            metrics = (await client.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).text
            api.may_list = True
            await eventually(lambda: not gateway.fleet.discovery.fault)
            late_s = 60.0
            await eventually(lambda: not gateway.proof.findings())
            gateway.stop()

    assert not before
    assert (finding["name"], finding["replica"], finding["severity"]) == ("discovery_stale", "", "degraded")
    assert "verb list on the resource pods" in str(finding["detail"])
    assert 'prefixway_findings{name="discovery_stale",replica=""} 1.0' in metrics
