"""Gateways before replicas that answer every route of vLLM."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import httpx

from gateway.app import Gateway, running_gateway
from gateway.settings import Settings
from tests.fakes.any_engine import AnyEngine
from tests.fakes.scripted_server import Script


class Street(NamedTuple):
    """Engines, and gateways before them with a client each."""

    engines: dict[str, AnyEngine]
    gateways: list[Gateway]
    clients: list[httpx.AsyncClient]
    cues: deque[Script]  # what whichever engines are asked next play


@asynccontextmanager
async def street(gateways: int = 1, /, **settings: str) -> AsyncIterator[Street]:
    """All of it runs, and is complete."""
    async with AsyncExitStack() as stack:
        cues: deque[Script] = deque()
        engines = {name: await stack.enter_async_context(AnyEngine(name, cues=cues)) for name in "abc"}
        built = Street(engines, [], [], cues)
        for _ in range(gateways):
            environ = {
                "PREFIXWAY_REPLICAS": ",".join(f"{name}={engine.url}" for name, engine in engines.items()),
                "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
                "PREFIXWAY_INDEX_BUDGET_MS": "500",
                "PREFIXWAY_ACCESS_LOG": "false",
                "PREFIXWAY_BACKGROUND_CHECKS": "false",
                **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
                **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
            }
            gateway = await stack.enter_async_context(running_gateway(Settings.from_env(environ)))
            client = httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60)
            built.gateways.append(gateway)
            built.clients.append(await stack.enter_async_context(client))
        for gateway in built.gateways:
            await gateway.until_complete()
        yield built
