"""Replicas come and go, 2 to 6 to 3, while people ask: nobody's request fails, and who left is forgotten."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from gateway.fleet.discovery.dns import DnsNames
from gateway.fleet.discovery.polling import PollingDiscovery
from gateway.shared.link.keys import Keys
from tests.end_to_end.at_rest import at_rest
from tests.end_to_end.growing_fleet import GrowingFleet
from tests.end_to_end.house import house
from tests.end_to_end.listings import NAME, InDns, InKubernetes
from tests.end_to_end.shared_house import MODEL, shared_house
from tests.fakes.background import running
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.name_server import NameServer
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there every 127.x.y.z is this machine")

_INTERVAL_S = 0.1


def _by_labels(api: KubernetesApi, folder: Path) -> dict[str, str]:
    """Settings of a gateway that finds its replicas by the cluster's API."""
    return {
        "discovery": "kubernetes:default/app=vllm",
        "discovery_interval_s": str(_INTERVAL_S),
        "kubernetes_api": api.url,
        "kubernetes_account": str(api.write_account(folder / "account")),
    }


@asynccontextmanager
async def _in_kubernetes(folder: Path) -> AsyncIterator[GrowingFleet]:
    async with (
        AsyncExitStack() as stack,
        KubernetesApi(tls=True) as api,
        house([], None, **_by_labels(api, folder)) as home,
    ):
        yield GrowingFleet(InKubernetes(api), [home.gateway], [home.client], stack)


@asynccontextmanager
async def _in_dns() -> AsyncIterator[GrowingFleet]:
    """The gateway's own settings know name servers on port 53 only: so its discovery runs beside it."""
    async with AsyncExitStack() as stack, NameServer() as names, house([]) as home:
        fleet = GrowingFleet(InDns(names), [home.gateway], [home.client], stack)
        directory = DnsNames(NAME, fleet.port, resolver=names.resolver())
        pool = home.gateway.pool
        discovery = PollingDiscovery(directory, pool.reconcile, clock=monotonic, interval_s=_INTERVAL_S)
        await stack.enter_async_context(running(discovery.run()))
        yield fleet


@asynccontextmanager
async def _in_kubernetes_shared(folder: Path) -> AsyncIterator[GrowingFleet]:
    """Two gateways on one Redis."""
    async with AsyncExitStack() as stack, KubernetesApi(tls=True) as api:
        settings = _by_labels(api, folder)
        home = await stack.enter_async_context(shared_house((settings, settings), ids=()))
        redis = home.redis.client()

        def registered() -> list[str]:
            fields = redis.hkeys(Keys().registry(MODEL))
            return [field.decode().removeprefix("r:") for field in fields if isinstance(field, bytes)]

        yield GrowingFleet(InKubernetes(api), home.gateways, home.clients, stack, registered=registered)


@pytest.mark.parametrize("where", ["kubernetes", "dns", "kubernetes, two gateways on Redis"])
async def test_replicas_come_and_go_unnoticed(where: str, tmp_path: Path) -> None:
    """Also: an answer that has begun at one that leaves comes to its last byte, and load at those that stay counts on.

    In Kubernetes a pod is told to stop long before it ends.
    """
    places = {"kubernetes": _in_kubernetes(tmp_path), "dns": _in_dns()}
    async with places.get(where) or _in_kubernetes_shared(tmp_path) as fleet:
        first, second = await fleet.grow(2)
        await eventually(lambda: all(gateway.is_ready() for gateway in fleet.gateways))
        async with fleet.load() as load:
            await fleet.until_used([first, second])
            let_first_go = await fleet.hold(first)

            third, *others = await fleet.grow(4)
            await fleet.until_used([second, third, *others])
            assert fleet.inflight(first) >= 1

            leaving = [second, *others[:2]]
            ids = [fleet.listing.server_id(address) for address in leaving]
            let_go = [await fleet.hold(address) for address in leaving]
            for address in leaving:
                fleet.listing.terminate(address)
            await fleet.until_forgotten(ids)
            served, answered = fleet.served(leaving), load.answered
            await eventually(lambda: load.answered > answered + 100)
            assert fleet.served(leaving) == served
            for go in let_go:
                go()
            await asyncio.gather(*(fleet.end(address) for address in leaving))

            assert fleet.inflight(first) >= 1
            let_first_go()
            await fleet.until_used([first, third, others[2]])
        assert load.failures == []
        assert load.streamed > 50
        for gateway in fleet.gateways:
            assert len(gateway.pool.servers) == 3
            await at_rest(gateway)
