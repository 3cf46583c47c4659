"""The one place that survives any error: a background task that fails is logged and started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

_log = logging.getLogger(__name__)


_LONGEST_PAUSE_S = 60.0


class Part(Protocol):
    """What runs in the background, and again after a failure."""

    async def run(self) -> None: ...


async def keep_running(run: Callable[[], Awaitable[None]], name: str, *, pause_s: float = 1.0) -> None:
    """Run ``run`` until it returns or is cancelled; after an error wait ``pause_s`` and run it again.

    The gateway goes on with what it has: without probes, events or a tokenizer it still routes. What fails in the same
    way again and again waits longer and longer, and is told in full only once.
    """
    clock = asyncio.get_running_loop().time
    told, wait_s = "", pause_s
    while True:
        began_s = clock()
        try:
            return await run()
        except Exception as error:
            repeated = repr(error) == told and clock() - began_s < _LONGEST_PAUSE_S
            wait_s = min(2 * wait_s, max(pause_s, _LONGEST_PAUSE_S)) if repeated else pause_s
            told = repr(error)
            _log.error("%s failed; it starts again in %g s", name, wait_s, exc_info=None if repeated else error)
        await asyncio.sleep(wait_s)
