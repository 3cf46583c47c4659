"""SecretAgreement: how all processes come to hash under the same random secret, made once for the fleet.

- Nobody has shared one: the first to ask shares its own.
- A process whose secret was never in Redis adopts what it finds there.
- After a flush whoever lives puts back the one in use.
- If a newcomer was faster after a flush, two shared ones meet: the older one wins everywhere.

Redis decides, in one script; this is a part of the heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall
from gateway.shared.processes.hash_secret import HashSecret

_KEY_S = 86_400
_AGREE = Script.load("secret")


class SecretAgreement:
    """A part of the heartbeat. Not for a secret that is a setting: that one is fixed."""

    def __init__(self, secret: HashSecret, keys: Keys) -> None:
        self._secret = secret
        self._key = keys.fleet("secret")
        self._created_ms: int | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the secret in use was ever in Redis."""
        return self._created_ms is not None

    async def settle(self, link: RedisLink, timeout_s: float) -> bool:
        """Try to agree before anything is hashed. False: Redis did not answer, and the heartbeat will agree later."""
        try:
            async with asyncio.timeout(timeout_s):
                answer = await link.run(self.command())
        except (RedisError, TimeoutError):
            return False
        self.answered(answer)
        return True

    def command(self) -> ScriptCall:
        created = "" if self._created_ms is None else self._created_ms
        return ScriptCall(_AGREE, (self._key,), (self._secret.value.hex(), created, _KEY_S))

    def answered(self, answer: Sequence[Any]) -> None:
        value, self._created_ms = answer
        self._secret.use(bytes.fromhex(value.decode()))

    def missed(self) -> None:
        """The secret in use stays."""
