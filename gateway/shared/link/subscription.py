"""A subscription to a channel, on a connection of its own that shows within seconds when it is dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from redis.asyncio.connection import AbstractConnection

from gateway.shared.link.redis_client import RedisClient
from gateway.shared.link.redis_errors import FAILURES, translated


async def messages(client: RedisClient, channel: str, silence_s: float) -> AsyncGenerator[bytes, None]:
    """Payloads as they come. After ``silence_s`` without anything a ping is sent, after as much again it is dead.

    Raises :class:`RedisUnavailable` then, and :class:`RedisRefused` where the channel is not allowed.
    """
    connection = await client.dedicated()
    try:
        await _send(connection, silence_s, "SUBSCRIBE", channel)
        pinged = False
        while True:
            reply = await connection.read_response(timeout=silence_s, disconnect_on_error=False)
            if reply is None and pinged:
                raise TimeoutError
            if reply is None:
                await _send(connection, silence_s, "PING")
            elif reply[0] == b"message":
                yield reply[2]
            pinged = reply is None
    except FAILURES as error:
        raise translated(error) from error
    finally:
        await connection.disconnect(nowait=True)


async def _send(connection: AbstractConnection, timeout_s: float, *words: str) -> None:
    async with asyncio.timeout(timeout_s):
        await connection.send_command(*words)
