"""A replica comes back under its name, at another address: every kind of connection to it finds the new one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.black_hole import black_hole, waits_for
from tests.fakes.host_names import HostNames
from tests.running_gateway import RunningGateway, running_gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there every 127.x.y.z is this machine")

_NAME = "replica.test"
_OLD, _NEW = "127.0.0.2", "127.0.0.3"
_WORDS = "the sea and its ships and the winds that drive them over the waves to far away shores " * 8


class _Home:
    """One gateway in a process of its own, and its replica ``a``, by name and at whatever address the name has."""

    def __init__(self, names: HostNames, old: SimulatedReplica, gateway: RunningGateway) -> None:
        self.names = names
        self.old = old
        self.gateway = gateway
        self.client = httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=30)

    @property
    def ports(self) -> list[int]:
        return [self.old.http.port, *(_port(end) for end in _endpoints(self.old))]

    def successor(self) -> SimulatedReplica:
        """The same replica, started anew elsewhere."""
        events, replay = (f"tcp://{_NEW}:{_port(end)}" for end in _endpoints(self.old))
        options = replace(
            self.old.options, host=_NEW, port=self.old.http.port, events_endpoint=events, replay_endpoint=replay
        )
        return SimulatedReplica(options)

    async def complete(self, prompt: str) -> httpx.Response:
        body = {"model": "simulated", "prompt": prompt, "max_tokens": 2}
        return await self.client.post("/v1/completions", json=body)

    async def until_followed(self, replica: SimulatedReplica) -> None:
        """Wait until the gateway knows of every block that ``replica`` holds, and of no other: sooner than a feed that
        hears nothing makes a new connection by itself.
        """

        def follows() -> bool:
            page = self.gateway.replicas()["a"]
            return bool(
                page["healthy"]
                and page.get("events", {}).get("state") == "fresh"
                and page["owned_blocks"]["l0"] == len(replica.cache.resident_prefixes())
            )

        await asyncio.to_thread(self.gateway.wait, follows, 15.0)

    async def until_down(self) -> None:
        await asyncio.to_thread(self.gateway.wait, lambda: not self.gateway.replicas()["a"]["healthy"], 15.0)


def _endpoints(replica: SimulatedReplica) -> tuple[str, str]:
    publisher = replica.publisher
    assert publisher.replay_endpoint is not None
    return publisher.endpoint, publisher.replay_endpoint


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def _options() -> ReplicaOptions:
    nowhere = f"tcp://{_OLD}:0"
    return ReplicaOptions(
        speeds=FAST, host=_OLD, events_endpoint=nowhere, replay_endpoint=nowhere, lists_event_sources=False
    )


@asynccontextmanager
async def _home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Home]:
    names = HostNames(folder)
    names.put(_NAME, _OLD)
    for name, value in names.environment.items():
        monkeypatch.setenv(name, value)  # for the process that is started here
    async with AsyncExitStack() as stack:
        old = await stack.enter_async_context(SimulatedReplica(_options()))
        events, replay = ("tcp://{host}:" + str(_port(end)) for end in _endpoints(old))
        block = ExitStack()
        stack.push_async_callback(asyncio.to_thread, block.close)
        url = f"a=http://{_NAME}:{old.http.port}?events={events}&replay={replay}"
        starting = running_gateway([url], probe_timeout_s="0.5", connect_timeout_s="0.5")
        home = _Home(names, old, await asyncio.to_thread(block.enter_context, starting))
        await stack.enter_async_context(home.client)
        yield home


async def test_everything_follows_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests on kept connections, probes, live events, and the replay of what nobody was there to hear."""
    async with _home(tmp_path, monkeypatch) as home:
        assert (await home.complete(_WORDS)).status_code == 200
        await home.until_followed(home.old)

        async with home.successor() as new:
            home.names.put(_NAME, _NEW)
            async with httpx.AsyncClient(base_url=new.url, trust_env=False) as direct:  # the gateway does not see it
                body = {"model": "simulated", "prompt": f"unheard of: {_WORDS}", "max_tokens": 2}
                assert (await direct.post("/v1/completions", json=body)).is_success
            await home.old.stop()

            answer = await home.complete("at once")
            assert (answer.status_code, answer.headers["x-prefixway-replica"]) == (200, "a")
            await home.until_followed(new)
            assert "l0=0" not in (await home.complete(f"unheard of: {_WORDS}")).headers["x-prefixway-matched"]
            await home.complete(f"heard live: {_WORDS}")
            await home.until_followed(new)


async def test_an_old_address_that_never_answers_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a host that lost its power, tried again before the name servers knew better."""
    async with _home(tmp_path, monkeypatch) as home:
        await home.until_followed(home.old)
        await home.old.stop()
        with black_hole(_OLD, home.ports):
            await home.until_down()
            events = home.ports[1]
            await asyncio.to_thread(home.gateway.wait, lambda: waits_for(_OLD, events), 15.0)

            async with home.successor() as new:
                home.names.put(_NAME, _NEW)
                await home.until_followed(new)
                assert (await home.complete(_WORDS)).status_code == 200
                await home.until_followed(new)
