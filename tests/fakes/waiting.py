"""Wait for what must become true, never for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(predicate: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Return as soon as ``predicate()`` is truthy; fail with its last value after ``timeout_s``."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not (value := predicate()):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"still {value!r} after {timeout_s} s")
        await asyncio.sleep(0.005)
