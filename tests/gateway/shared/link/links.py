"""Links to Redis for the length of a block, and asking them until they answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command, Script, ScriptCall

ECHO = Script.of("echo", "return ARGV[1]")
WRITE = Script.of("write", "return redis.call('SET', KEYS[1], ARGV[1])")

#: For what must not be given up on a busy machine.
PATIENT_S = 20.0


def echo(word: str = "hello", key: str = "k") -> ScriptCall:
    """A lookup whose answer is ``word``."""
    return ScriptCall(ECHO, [key], [word])


@asynccontextmanager
async def linked(url: str, **options: Any) -> AsyncIterator[RedisLink]:
    """By default generous with time."""
    patient: dict[str, Any] = {"clock": time.monotonic, "budget_s": PATIENT_S, "timeout_s": PATIENT_S}
    link = RedisLink(RedisTarget.parse(url), **patient | options)
    try:
        yield link
    finally:
        await link.close()


async def until_run(link: RedisLink, command: Command) -> Any:
    """The reply, as soon as there is one."""
    async with asyncio.timeout(PATIENT_S):
        while True:
            try:
                return await link.run(command)
            except RedisError:
                await asyncio.sleep(0.01)


async def until_asked(link: RedisLink, call: ScriptCall) -> Any:
    """The answer, as soon as requests get one."""
    async with asyncio.timeout(PATIENT_S):
        while True:
            try:
                return await link.ask(call)
            except RedisError:
                await asyncio.sleep(0.01)


async def until_given_up(link: RedisLink, call: ScriptCall) -> None:
    """Ask in vain until requests ask no more."""
    async with asyncio.timeout(PATIENT_S):
        while link.is_up:
            try:
                await link.ask(call)
            except RedisError:
                await asyncio.sleep(0)
