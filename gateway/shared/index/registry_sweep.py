"""RegistrySweep: strikes replicas off the registries whose writers died with them.

A writer that ends in order, or whose replica leaves, does so itself. A sidecar that was killed with its pod cannot: its
sets lapse, and only the entry would stay, for ever. Every process looks now and then; the script makes sure that one
is enough, and that a replica that is written again stays.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from gateway.kv.tiers import Tier
from gateway.shared.index.redis_index import RedisIndex
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall

_LOGGER = logging.getLogger(__name__)
_FORGET = Script.load("forget")
_EVERY_S = 30.0
_PER_PIPELINE = 200


class RegistrySweep:
    """``every_s``: between two looks."""

    def __init__(self, link: RedisLink, keys: Keys, index: RedisIndex, *, every_s: float = _EVERY_S) -> None:
        self._link = link
        self._keys = keys
        self._index = index
        self._every_s = every_s

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.sweep()
            except RedisError as error:
                _LOGGER.debug("no sweep: %s", error)

    async def sweep(self) -> None:
        """Look at every entry once. Raises ``RedisError``."""
        calls = [
            self._forget(namespace, replica_id, entry.epoch)
            for namespace, registry in self._index.registries.items()
            for replica_id, entry in (*registry.entries.items(), *registry.foreign.items())
        ]
        for at in range(0, len(calls), _PER_PIPELINE):
            await self._link.run_all(calls[at : at + _PER_PIPELINE])

    def _forget(self, namespace: str, replica_id: str, epoch: int) -> ScriptCall:
        keys = (
            self._keys.registry(namespace),
            self._keys.writer_of(namespace, replica_id),
            self._keys.blocks_of(namespace, replica_id, epoch, Tier.L0),
        )
        return ScriptCall(_FORGET, keys, (replica_id, epoch, secrets.token_hex(8)))
