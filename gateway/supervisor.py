"""The one place that survives any error: a background task that fails is logged and started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)


async def keep_running(run: Callable[[], Awaitable[None]], name: str, *, pause_s: float = 1.0) -> None:
    """Run ``run`` until it returns or is cancelled; after an error wait ``pause_s`` and run it again.

    The gateway goes on with what it has: without probes, events or a tokenizer it still routes.
    """
    while True:
        try:
            return await run()
        except Exception:
            _log.exception("%s failed; it starts again in %g s", name, pause_s)
        await asyncio.sleep(pause_s)
