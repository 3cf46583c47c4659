"""Gateway processes for live runs of a trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tests.running_gateway import RunningGateway, running_gateway


class LiveGateways:
    """Starts one for each run. ``settings`` without their prefix, in lower case; ``options``: of the strategy.

    ``measure`` gets each process when it is ready, and again when its run is over.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        options: Mapping[str, object] | None = None,
        measure: Callable[[RunningGateway], object] = lambda _: None,
    ) -> None:
        self._settings = {
            **settings,
            "strategy_options": json.dumps(options or {}),
            "access_log": "false",
            "log_level": "info",
        }
        self._measure = measure

    @asynccontextmanager
    async def start(self, targets: Sequence[str], strategy: str) -> AsyncIterator[str]:
        """Its base URL, once it knows all replicas and hears their events."""
        starting = running_gateway(targets, ready=True, command="serve", strategy=strategy, **self._settings)
        gateway = await asyncio.to_thread(starting.__enter__)
        try:
            await asyncio.to_thread(gateway.wait, partial(_is_complete, gateway, len(targets)))
            self._measure(gateway)
            yield gateway.url
            self._measure(gateway)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


def _is_complete(gateway: RunningGateway, replicas: int) -> bool:
    status = gateway.status()
    known = [(replica["healthy"], replica["events"]["state"]) for replica in status["replicas"]]
    return known == [(True, "fresh")] * replicas and bool(status["models"])
