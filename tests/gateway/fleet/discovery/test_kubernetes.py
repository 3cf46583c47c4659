"""Pods of a cluster as servers, by whole lists: whatever became of a pod, the next list tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from gateway.fleet.discovery.kubernetes import KubernetesPods
from gateway.fleet.discovery.kubernetes_api import KubernetesApi
from gateway.fleet.discovery.polling import Found, LookupFailed, PollingDiscovery
from gateway.fleet.discovery.service_account import ServiceAccount
from gateway.fleet.inflight import InFlight
from gateway.fleet.model_card import parse_models
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import ServerSpec
from gateway.setting_values import read_finder
from tests.fakes.background import running
from tests.fakes.kubernetes_api import KubernetesApi as FakeApi
from tests.fakes.scripted_server import Wire, answer, plays
from tests.fakes.waiting import eventually

APP = "kubernetes:app=vllm"


@asynccontextmanager
async def _pods(
    fake: FakeApi, folder: Path, finder: str = APP, *, patience_s: float = 15.0
) -> AsyncIterator[KubernetesPods]:
    account = ServiceAccount(folder)
    pods = KubernetesPods(KubernetesApi(fake.url, account), account, read_finder(finder), patience_s=patience_s)
    try:
        yield pods
    finally:
        await pods.close()


def _names(found: Found) -> list[str]:
    return [spec.id.partition("@")[0] for spec in found.specs]


async def test_pods_of_a_namespace_with_certain_labels(tmp_path: Path) -> None:
    """The namespace is the gateway's own, unless the setting names one."""
    async with FakeApi(tls=True) as fake:
        fake.add("a", "10.0.0.1", labels={"app": "vllm", "model": "m"})
        fake.add("b", "10.0.0.2", ready=False)
        fake.add("c", "10.0.0.3", labels={"app": "other"})
        fake.add("d", "10.0.0.4", namespace="models")
        fake.write_account(tmp_path)
        async with _pods(fake, tmp_path) as pods:
            ours = await pods.look_up()
        async with _pods(fake, tmp_path, "kubernetes:models/app==vllm:9000") as pods:
            theirs = await pods.look_up()
        async with _pods(fake, tmp_path, "kubernetes:app=vllm,model=m") as pods:
            both = await pods.look_up()

    assert [(spec.id, spec.origin.url) for spec in ours.specs] == [
        (fake.server_id("a"), "http://10.0.0.1:8000"),
        (fake.server_id("b"), "http://10.0.0.2:8000"),
    ]
    assert ours.held_back == {fake.server_id("b")}
    assert [spec.origin.url for spec in theirs.specs] == ["http://10.0.0.4:9000"]
    assert _names(both) == ["a"]


async def test_a_list_of_many_pages_is_one_list(tmp_path: Path) -> None:
    async with FakeApi(token=None, most_per_page=2) as fake:
        for number in range(7):
            fake.add(f"p{number}", f"10.0.0.{number}")
        async with _pods(fake, fake.write_account(tmp_path)) as pods:
            found = await pods.look_up()

    assert _names(found) == [f"p{number}" for number in range(7)]
    assert len(fake.requests) == 4


async def test_a_list_that_is_forgotten_while_it_is_read_is_read_from_the_beginning(tmp_path: Path) -> None:
    """Also if that happens again; not for ever."""
    async with FakeApi(token=None, most_per_page=2) as fake:
        for number in range(3):
            fake.add(f"p{number}", f"10.0.0.{number}")

        async def forget(wire: Wire) -> None:
            fake.expire_pages()
            await fake.usual(wire)

        async with _pods(fake, fake.write_account(tmp_path)) as pods:
            fake.cues += [fake.usual, forget, fake.usual, forget]
            assert _names(await pods.look_up()) == ["p0", "p1", "p2"]
            fake.cues += [fake.usual, forget] * 3
            with pytest.raises(LookupFailed, match="answers 410"):
                await pods.look_up()


async def test_a_list_without_an_end_is_given_up(tmp_path: Path) -> None:
    page = json.dumps({"kind": "PodList", "metadata": {"continue": "on"}, "items": []}).encode()
    async with FakeApi(token=None) as fake:
        fake.cues += [plays(answer(page))] * 1000
        async with _pods(fake, fake.write_account(tmp_path)) as pods:
            with pytest.raises(LookupFailed, match="without an end"):
                await pods.look_up()


async def test_a_list_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with FakeApi(token=None) as fake:
        fake.cues.append(Wire.until_gone)
        async with _pods(fake, fake.write_account(tmp_path), patience_s=0.1) as pods:
            with pytest.raises(LookupFailed, match=r"no list of pods within 0\.1 s"):
                await pods.look_up()


class _Fleet:
    """A pool that follows the fake's pods, at every :meth:`look`."""

    def __init__(self, pods: KubernetesPods) -> None:
        self.pool = ReplicaPool()
        self.told = 0
        self.discovery = PollingDiscovery(pods, self._found, clock=monotonic, interval_s=0.01)

    def _found(self, specs: Sequence[ServerSpec], held_back: Collection[str]) -> None:
        self.told += 1
        self.pool.reconcile(specs, held_back)

    def urls(self) -> dict[str, str]:
        """By name without UID."""
        return {server.id.partition("@")[0]: server.spec.origin.url for server in self.pool.servers}


@asynccontextmanager
async def _fleet(fake: FakeApi, folder: Path) -> AsyncIterator[_Fleet]:
    async with _pods(fake, fake.write_account(folder)) as pods:
        yield _Fleet(pods)


async def test_a_pod_that_was_deleted_while_nobody_looked_is_gone_with_the_next_list(tmp_path: Path) -> None:
    """Whether the API was away meanwhile or not."""
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        fake.add("a", "10.0.0.1")
        fake.add("b", "10.0.0.2")
        await fleet.discovery.look()
        fake.kill()
        fake.delete("a")
        await fleet.discovery.look()
        while_away = sorted(fleet.urls())
        await fake.revive()
        await fleet.discovery.look()

    assert (while_away, sorted(fleet.urls())) == (["a", "b"], ["b"])


async def test_a_pod_that_was_evicted_lost_its_address_or_its_label_or_was_told_to_end_is_gone(tmp_path: Path) -> None:
    """Though it may go on answering /health."""
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        for number, name in enumerate(("evicted", "lost", "relabelled", "ending", "stays")):
            fake.add(name, f"10.0.0.{number}")
        await fleet.discovery.look()
        before = len(fleet.urls())
        fake.pod("evicted")["status"]["phase"] = "Failed"
        fake.pod("lost")["status"]["podIP"] = None
        fake.pod("relabelled")["metadata"]["labels"] = {"app": "debug"}
        fake.terminate("ending")
        await fleet.discovery.look()

    assert (before, list(fleet.urls())) == (5, ["stays"])


async def test_another_address_under_the_same_name_is_another_server(tmp_path: Path) -> None:
    """Nothing of the old one is mixed into its counts; who stays is the same as before."""
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        fake.add("a", "10.0.0.1", uid="00000001-0000-4000-8000-000000000000")
        fake.add("b", "10.0.0.2")
        await fleet.discovery.look()
        for server in fleet.pool.servers:
            fleet.pool.identify(server, parse_models({"data": [{"id": "m"}]}), {})
            server.replicas[0].workload.dispatch(InFlight(0.1, 0.1, 9, 1.0, True, 0.0), 0.0)
        stays = fleet.pool.server(fake.server_id("b"))
        fake.pod("a")["status"]["podIP"] = "10.0.0.9"
        await fleet.discovery.look()
        moved = fleet.pool.server(fake.server_id("a"))
        fake.add("a", "10.0.0.9")
        await fleet.discovery.look()
        replaced = fleet.pool.server(fake.server_id("a"))

    assert moved is not None
    assert replaced is not None
    assert moved.spec.origin.url == replaced.spec.origin.url == "http://10.0.0.9:8000"
    assert (moved.inflight, replaced.inflight) == (0, 0)
    assert replaced is not moved
    assert len(fleet.pool.servers) == 2
    assert stays is fleet.pool.server(fake.server_id("b"))
    assert stays is not None
    assert stays.inflight == 1


async def test_a_port_that_is_no_longer_listed_leaves_no_server_behind(tmp_path: Path) -> None:
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        fake.add("a", "10.0.0.1", port=8000)
        fake.add("b", "10.0.0.1", port=8001)
        await fleet.discovery.look()
        before = fleet.urls()
        fake.add("b", "10.0.0.1", port=8002)
        await fleet.discovery.look()

    assert before == {"a": "http://10.0.0.1:8000", "b": "http://10.0.0.1:8001"}
    assert fleet.urls() == {"a": "http://10.0.0.1:8000", "b": "http://10.0.0.1:8002"}


async def test_a_pod_that_goes_and_comes_a_thousand_times_is_there_at_the_end(tmp_path: Path) -> None:
    """While lists are being read; and the last one that came has its place."""
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet, running(fleet.discovery.run()):
        for number in range(1000):
            if number:
                fake.delete("a")
            fake.add("a", f"10.0.{number // 250}.{number % 250}")
            if number % 50 == 0:
                told = fleet.told
                await eventually(lambda told=told: fleet.told > told)  # type: ignore[misc]
        await eventually(lambda: fleet.urls() == {"a": "http://10.0.3.249:8000"})

    assert [server.id for server in fleet.pool.servers] == [fake.server_id("a")]


async def test_what_is_listed_again_unchanged_is_not_handed_on(tmp_path: Path) -> None:
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        fake.add("a", "10.0.0.1")
        for _ in range(3):
            await fleet.discovery.look()

    assert fleet.told == 1


async def test_a_thousand_pods_are_found_by_few_questions(tmp_path: Path) -> None:
    async with FakeApi(token=None) as fake, _fleet(fake, tmp_path) as fleet:
        for number in range(1000):
            fake.add(f"p{number}", f"10.0.{number // 250}.{number % 250}")
        await fleet.discovery.look()

    assert len(fleet.pool.servers) == 1000
    assert len(fake.requests) == 4
