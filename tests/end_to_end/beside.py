"""A gateway as a process of its own, beside a test whose event loop its replicas live in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager

from tests.running_gateway import RunningGateway, running_gateway


@asynccontextmanager
async def gateway_beside(replica_urls: Sequence[str], **settings: str) -> AsyncIterator[RunningGateway]:
    """It is ready; whatever waits for it does so in a thread."""
    stack = ExitStack()
    try:
        yield await asyncio.to_thread(stack.enter_context, running_gateway(replica_urls, ready=True, **settings))
    finally:
        await asyncio.to_thread(stack.close)
