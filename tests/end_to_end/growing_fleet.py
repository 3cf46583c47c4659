"""Replicas that come and go under gateways that are asked all the time."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from gateway.app import Gateway
from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.end_to_end.listings import Listing
from tests.end_to_end.watchful_load import WatchfulLoad
from tests.fakes.scripted_server import closed_port
from tests.fakes.waiting import eventually

_BOUND_S = 10.0  # within which a replica that left is left alone


class GrowingFleet:
    """``gateways``, a client for each, and ``replicas`` by address: those whose processes run."""

    def __init__(
        self,
        listing: Listing,
        gateways: Sequence[Gateway],
        clients: Sequence[httpx.AsyncClient],
        stack: AsyncExitStack,
        *,
        registered: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``registered``: the replicas whose entries Redis has."""
        self.listing = listing
        self.gateways = gateways
        self.clients = clients
        self.replicas: dict[str, SimulatedReplica] = {}
        self._stack = stack
        self._registered = registered
        self._addresses = (f"127.0.0.{number}" for number in itertools.count(11))
        self.port = closed_port()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[WatchfulLoad]:
        """Inside the block people ask. At its end nobody is held any more."""
        load = WatchfulLoad(self.clients, next(iter(self.replicas.values())).folder.words)
        async with load.going_on():
            try:
                yield load
            finally:
                for replica in self.replicas.values():
                    replica.faults.clear()

    async def grow(self, number: int) -> list[str]:
        """So many more; returns as soon as they are listed as ready, with their addresses."""
        new = [next(self._addresses) for _ in range(number)]
        for address in new:
            self.listing.add(address, self.port)
            anywhere = f"tcp://{address}:0"
            options = ReplicaOptions(
                speeds=FAST, host=address, port=self.port, events_endpoint=anywhere, replay_endpoint=anywhere
            )
            self.replicas[address] = await self._stack.enter_async_context(SimulatedReplica(options))
            self.listing.ready(address)
        return new

    async def until_used(self, addresses: Sequence[str]) -> None:
        """Wait until each has been sent a request from now on, and its cache is followed."""
        before = self.served(addresses)
        await eventually(lambda: all(now > was for now, was in zip(self.served(addresses), before)))
        ids = {self.listing.server_id(address) for address in addresses}
        await eventually(lambda: all(ids <= self._indexed(gateway) for gateway in self.gateways))

    def served(self, addresses: Sequence[str]) -> list[int]:
        """Generation requests that came to each."""
        requests = [self.replicas[address].requests for address in addresses]
        return [sum("completions" in request.target for request in each) for each in requests]

    async def hold(self, address: str) -> Callable[[], None]:
        """Let an answer of this replica stop after its first chunk, until what is returned is called."""
        faults = self.replicas[address].faults
        faults.add(Fault(stall_after_chunks=1))
        await eventually(lambda: faults.stalled)
        return faults.clear

    def inflight(self, address: str) -> int:
        """What its replica is known to work on, by those who gave it that."""
        id_ = self.listing.server_id(address)
        servers = [gateway.pool.server(id_) for gateway in self.gateways]
        return sum(replica.workload.own_inflight for server in servers if server for replica in server.replicas)

    async def until_forgotten(self, ids: Sequence[str]) -> None:
        """Wait until no gateway chooses among, indexes or measures these any more."""

        def left() -> set[str]:
            known = set(self._registered())
            for gateway in self.gateways:
                known |= {server.id for server in gateway.pool.servers} | self._indexed(gateway)
            return known.intersection(ids)

        await eventually(lambda: not left(), _BOUND_S)
        for gateway, client in zip(self.gateways, self.clients):
            page = await client.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")
            told = {server.id for server in gateway.pool.servers} | set(ids)
            assert {id_ for id_ in told if f'"{id_}"' in page.text} == told.difference(ids)

    async def end(self, address: str) -> None:
        """What runs there has ended: so does its process, and it is listed no more."""
        replica = self.replicas.pop(address)
        await eventually(lambda: replica.scheduler.running + replica.scheduler.waiting == 0)
        await replica.stop()
        self.listing.delete(address)

    def _indexed(self, gateway: Gateway) -> set[str]:
        keys = gateway.fellowship.memory.keys()
        return {key.server_id for key in keys}
