"""ResponseDirectory: which server keeps a stored response, for all gateways on one Redis.

What is not written or not found in time is not known: a request then goes where it would go without.

A server that keeps nothing, which is vLLM's default, answers with an id all the same, and nothing tells them apart. So
what a process writes is bounded: it must not fill a Redis with what nobody will ask for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import blake2b

from gateway.fleet.response_home import Home
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall

_LOGGER = logging.getLogger(__name__)
_HOME = Script.load("home")
_TTL_S = 86_400
_AT_ONCE = 500
_MOST_UNTOLD = 10_000
_HOUR_S = 3_600.0
_MOST_AN_HOUR = 10_000  # of some 200 bytes each: 50 MB in a day


class ResponseDirectory:
    """A :class:`~gateway.router.response_homes.Directory`. :meth:`run` it once; what is told before is told then."""

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        *,
        clock: Callable[[], float],
        pause_s: float = 1.0,
        most_untold: int = _MOST_UNTOLD,
        most_an_hour: int = _MOST_AN_HOUR,
    ) -> None:
        """``most_untold``: how many responses wait at most for a Redis that does not answer; then the oldest goes.
        ``pause_s``: until it is tried again. ``most_an_hour``: how many are told; of more the others do not learn.
        ``clock``: seconds, monotonic.
        """
        self._link = link
        self._keys = keys
        self._pause_s = pause_s
        self._most_untold = most_untold
        self._clock = clock
        self._hour_ends_s = clock() + _HOUR_S
        self._most_an_hour = most_an_hour
        self._left = most_an_hour  # of this hour
        self._untold: dict[str, Home] = {}
        self._is_told = asyncio.Event()

    async def find(self, response_id: str) -> Home | None:
        """Within the budget of a look-up."""
        try:
            found = await self._link.ask(ScriptCall(_HOME, (self._key(response_id),)))
        except RedisError:
            return None
        return _read(found) if isinstance(found, bytes) and found else None

    def tell(self, response_id: str, home: Home) -> None:
        if not self._may_tell():
            return
        self._untold[response_id] = home
        if len(self._untold) > self._most_untold:
            del self._untold[next(iter(self._untold))]
        self._is_told.set()

    def _may_tell(self) -> bool:
        """Count one more."""
        now = self._clock()
        if now >= self._hour_ends_s:
            self._hour_ends_s, self._left = now + _HOUR_S, self._most_an_hour
        self._left -= 1
        if self._left == -1:
            _LOGGER.warning(
                "more than %d responses within an hour: for the rest of it other gateways are not told where they are",
                self._most_an_hour,
            )
        return self._left >= 0

    async def run(self) -> None:
        """Write what was told, at once, and again where Redis did not answer."""
        while True:
            await self._is_told.wait()
            self._is_told.clear()
            while self._untold:
                await self._write(list(self._untold.items())[:_AT_ONCE])

    async def _write(self, homes: list[tuple[str, Home]]) -> None:
        commands = [("SET", self._key(id_), _written(home), "EX", _TTL_S) for id_, home in homes]
        try:
            await self._link.run_all(commands)
        except RedisUnavailable:
            await asyncio.sleep(self._pause_s)
            return
        for id_, home in homes:  # what Redis refused it would refuse again; the link counts it
            if self._untold.get(id_) == home:
                del self._untold[id_]

    def _key(self, response_id: str) -> str:
        """Of a bounded length, and without a client's words."""
        digest = blake2b(response_id.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return self._keys.fleet(f"response={digest}")


def _written(home: Home) -> bytes:
    """A server's id alone where there is no alias. A process that knows of no aliases takes more for no server's id."""
    text = f"{home.server_id}\n{home.alias}" if home.alias else home.server_id
    return text.encode("utf-8", "replace")


def _read(value: bytes) -> Home:
    server_id, _, alias = value.decode("utf-8", "replace").partition("\n")
    return Home(server_id, alias)
