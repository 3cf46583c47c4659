"""Something that runs in the background for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def running(part: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run ``part`` until the end of the block, then cancel it and wait for its end."""
    task = asyncio.get_running_loop().create_task(part)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
