"""A whole gateway and simulated replicas, all on real sockets, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from gateway.app import Gateway, running_gateway
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds

FAST = Speeds(prefill_tokens_per_s=200_000, step_s=0.001, chunk_tokens=4096)


class House:
    """A gateway, its replicas by id, and a client."""

    def __init__(self, gateway: Gateway, replicas: dict[str, SimulatedReplica], client: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.replicas = replicas
        self.client = client

    async def chat(self, text: str, *, system: str = "", max_tokens: int = 4, **fields: object) -> httpx.Response:
        """One plain chat."""
        messages = [{"role": "system", "content": system}] if system else []
        body = {"model": "simulated", "messages": [*messages, {"role": "user", "content": text}]}
        return await self.client.post("/v1/chat/completions", json={**body, "max_tokens": max_tokens, **fields})

    async def complete(self, prompt: object, *, max_tokens: int = 4, **fields: object) -> httpx.Response:
        """One plain completion."""
        body = {"model": "simulated", "prompt": prompt, "max_tokens": max_tokens, **fields}
        return await self.client.post("/v1/completions", json=body)

    def served(self) -> dict[str, int]:
        """Generation requests that each replica received."""
        return {
            id_: sum("completions" in request.target for request in replica.requests)
            for id_, replica in self.replicas.items()
        }

    async def metrics(self) -> str:
        """GET /metrics."""
        url = f"http://127.0.0.1:{self.gateway.metrics.port}/metrics"
        return (await self.client.get(url)).raise_for_status().text

    def events_settled(self) -> bool:
        """Whether the gateway has applied every batch that the replicas published."""
        stats = {key.server_id: feed for key, feed in self.gateway.fellowship.events.feeds.items()}
        return all(
            stats[id_].state.label == "fresh" and stats[id_].last_sequence == replica.publisher.next_sequence - 1
            for id_, replica in self.replicas.items()
        )


@asynccontextmanager
async def house(
    ids: Sequence[str] = ("a", "b", "c"), options: ReplicaOptions | None = None, **settings: str
) -> AsyncIterator[House]:
    """Start it and wait until the gateway knows its replicas and their tokenizer."""
    async with AsyncExitStack() as stack:
        replicas = {
            id_: await stack.enter_async_context(SimulatedReplica(options or ReplicaOptions(speeds=FAST)))
            for id_ in ids
        }
        gateway = await stack.enter_async_context(
            running_gateway(
                Settings.from_env(
                    {
                        "PREFIXWAY_REPLICAS": ",".join(f"{id_}={replica.url}" for id_, replica in replicas.items()),
                        "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
                        "PREFIXWAY_ACCESS_LOG": "false",
                        "PREFIXWAY_BACKGROUND_CHECKS": "false",
                        **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
                        **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
                    }
                )
            )
        )
        client = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=gateway.url, trust_env=False, timeout=60, limits=httpx.Limits(max_connections=None)
            )
        )
        await gateway.until_complete()
        yield House(gateway, replicas, client)
