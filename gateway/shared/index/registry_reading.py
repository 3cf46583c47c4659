"""RegistryReading: keeps the registries of the fleet's namespaces current, also where no request asks.

So a replica is noticed that was registered for the first time, and requests are hashed in its block sizes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.link.redis_errors import RedisError, RedisRefused
from gateway.shared.link.redis_link import RedisLink

_LOGGER = logging.getLogger(__name__)
_EVERY_S = 0.5


class RegistryReading:
    """``namespaces`` are those of the replicas there are now."""

    def __init__(
        self,
        link: RedisLink,
        index: RedisIndex,
        namespaces: Callable[[], Collection[str]],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        self._link = link
        self._index = index
        self._namespaces = namespaces
        self._every_s = every_s

    async def run(self) -> None:
        """Read until cancelled. What fails is tried again. Refusals are told, once; of an outage the link tells."""
        told = ""
        while True:
            try:
                await self.read()
                told = ""
            except RedisRefused as error:
                if str(error) != told:
                    told = str(error)
                    _LOGGER.warning("the index cannot be read: %s", error)
            except RedisError as error:
                _LOGGER.debug("no registry: %s", error)
            await asyncio.sleep(self._every_s)

    async def read(self) -> None:
        """Read those that changed. Raises ``RedisError``, when all were read that can be."""
        namespaces = sorted(self._namespaces())
        if not namespaces:
            return
        answers = await self._link.run_all([self._index.registry_call(namespace) for namespace in namespaces])
        refused: RedisRefused | None = None
        for namespace, answer in zip(namespaces, answers):
            if isinstance(answer, RedisRefused):
                refused = refused or answer
            else:
                self._index.registry_answered(namespace, answer)
        if refused is not None:
            raise refused
