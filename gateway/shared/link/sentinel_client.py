"""SentinelClient: the server that sentinels name, for as long as it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection

from gateway.redis_url import Host
from gateway.shared.link.redis_client import PooledClient
from gateway.shared.link.redis_errors import RedisError, RedisUnavailable
from gateway.shared.link.script import Word

_Answer = TypeVar("_Answer")


class SentinelClient:
    """``sentinels`` are asked in turn for the address of ``master``; ``server`` makes its client."""

    def __init__(
        self, sentinels: Sequence[PooledClient], master: str, server: Callable[[Host], PooledClient], timeout_s: float
    ) -> None:
        self._sentinels = list(sentinels)
        self._master = master
        self._make_server = server
        self._timeout_s = timeout_s
        self._server: PooledClient | None = None
        self._finding = asyncio.Lock()

    async def execute(self, words: tuple[Word, ...]) -> Any:
        return await self._at_server(lambda server: server.execute(words))

    async def pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        return await self._at_server(lambda server: server.pipeline(commands))

    async def dedicated(self) -> AbstractConnection:
        return await self._at_server(lambda server: server.dedicated())

    async def close(self) -> None:
        for client in (*self._sentinels, self._server):
            if client is not None:
                await client.close()

    async def _at_server(self, exchange: Callable[[PooledClient], Awaitable[_Answer]]) -> _Answer:
        server = self._server
        try:
            async with asyncio.timeout(self._timeout_s):
                server = server or await self._find()
                return await exchange(server)
        except TimeoutError:
            await self._forget(server)
            raise RedisUnavailable("no answer in time") from None
        except RedisUnavailable as error:
            if error.elsewhere:
                await self._forget(server)
            raise

    async def _forget(self, server: PooledClient | None) -> None:
        if server is not None and server is self._server:
            self._server = None
            await server.leave()

    async def _find(self) -> PooledClient:
        async with self._finding:
            reason: RedisError | None = None
            for _ in range(len(self._sentinels)):
                if self._server is not None:
                    return self._server
                try:
                    self._server = await self._named_by(self._sentinels[0])
                except RedisError as error:
                    reason = error
                    self._sentinels.append(self._sentinels.pop(0))  # another one first, the next time
            if self._server is None:
                raise RedisUnavailable(f"no sentinel names the server: {reason}")
            return self._server

    async def _named_by(self, sentinel: PooledClient) -> PooledClient:
        address = await sentinel.execute(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master))
        if address is None:
            raise RedisUnavailable(f"there is no master named {self._master!r}")
        name, port = address
        return self._make_server(Host(name.decode(), int(port)))
