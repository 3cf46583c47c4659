"""RedisClient: exchanges with Redis over redis-py's connections, wherever the server is.

An exchange has one deadline for all of it: connecting, logging in, sending and reading. redis-py's own time-outs and
repetitions are off: each would multiply the deadline. Its pool and commands are not used: replies are as Redis sends
them, bytes, int, ``None`` and lists of these, in every version of redis-py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import ResponseError

from gateway.shared.link.redis_errors import FAILURES, RedisError, RedisRefused, RedisUnavailable, translated
from gateway.shared.link.script import Word


class RedisClient(Protocol):
    """Raises :class:`RedisUnavailable` and :class:`RedisRefused` only."""

    async def execute(self, words: tuple[Word, ...]) -> Any:
        """The reply to a command."""
        ...

    async def pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        """Replies in order, to commands that were sent at once; a :class:`RedisRefused` for what was refused."""
        ...

    async def dedicated(self) -> AbstractConnection:
        """A new connection; the caller disconnects it."""
        ...

    async def close(self) -> None: ...


class PooledClient:
    """One server at a time. Connections that are idle are kept; ``connections`` makes them and sees that they work."""

    def __init__(self, connections: ConnectionPool, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s
        self._idle: list[AbstractConnection] = []
        self._left = 0  # times; a connection from before the last time is not used again

    async def execute(self, words: tuple[Word, ...]) -> Any:
        (reply,) = await self._exchange(_packed(words), 1)
        if isinstance(reply, RedisRefused):
            raise reply
        return reply

    async def pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        try:
            return await self._exchange(b"".join(map(_packed, commands)), len(commands))
        except RedisRefused as error:  # the login: none of them ran
            return [error] * len(commands)

    async def dedicated(self) -> AbstractConnection:
        connection: AbstractConnection = self._connections.make_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()
        except FAILURES as error:
            raise translated(error) from error
        return connection

    async def leave(self) -> None:
        """Use no connection again that there is now: what comes next connects anew, perhaps to another server."""
        self._left += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        self._left += 1
        for connection in self._idle:
            with suppress(*FAILURES):
                await connection.disconnect()
        self._idle.clear()

    async def _exchange(self, sent: bytes, count: int) -> list[Any]:
        left = self._left
        replies: list[Any] = []
        connection = self._idle.pop() if self._idle else self._connections.make_connection()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connections.ensure_connection(connection)
                await _send(connection, sent)
                while len(replies) < count:
                    replies.append(await _reply(connection))
            _raise_unavailable(replies)
        except FAILURES as error:
            raise await self._after(translated(error), left) from error
        except RedisUnavailable as error:
            raise await self._after(error, left) from None
        finally:
            if len(replies) == count and left == self._left:
                self._idle.append(connection)
            else:  # a reply may still come on it, or the server is not the right one any more
                await connection.disconnect(nowait=True)
        return replies

    async def _after(self, error: RedisError, left: int) -> RedisError:
        if isinstance(error, RedisUnavailable) and error.elsewhere and left == self._left:
            await self.leave()
        return error


def _packed(words: tuple[Word, ...]) -> bytes:
    packed: bytes = pack_command(words)  # type: ignore[arg-type] # its stub means tuples of any length
    return packed


async def _send(connection: AbstractConnection, sent: bytes) -> None:
    try:
        await connection.send_packed_command(sent)
    except RuntimeError as error:  # uvloop's way to say that it was lost
        raise ConnectionError("the connection was lost") from error


async def _reply(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return translated(error)


def _raise_unavailable(replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, RedisUnavailable):
            raise reply
