"""Several processes of one fleet, as far as Redis can tell: each has its own connection, and beats when told to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.processes.heartbeat import HeartbeatPart
from tests.fakes.redis_servers import RedisServer
from tests.fakes.scripted_server import closed_port
from tests.gateway.shared.link.links import PATIENT_S, linked

#: Opens another connection, as another process would; all are closed at the test's end.
Connect = Callable[[], RedisLink]


@asynccontextmanager
async def connecting(server: RedisServer) -> AsyncIterator[Connect]:
    """Patient connections to ``server``."""
    links: list[RedisLink] = []

    def connect() -> RedisLink:
        links.append(RedisLink(RedisTarget.parse(server.url), clock=time.monotonic, timeout_s=PATIENT_S))
        return links[-1]

    yield connect
    for link in links:
        await link.close()


@asynccontextmanager
async def no_redis() -> AsyncIterator[RedisLink]:
    """A connection to where nobody is."""
    async with linked(f"redis://127.0.0.1:{closed_port()}") as link:
        yield link


async def beat(link: RedisLink, part: HeartbeatPart) -> None:
    """One beat of one part, alone."""
    part.answered(await link.run(part.command()))
