"""Discovery: finds replicas and tells the pool, for as long as it runs."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Discovery(Protocol):
    """``answered``: set once the pool was told of a list, be it empty. ``fault``: why the last look failed; "": it did
    not.
    """

    @property
    def answered(self) -> asyncio.Event: ...

    @property
    def fault(self) -> str: ...

    async def run(self) -> None:
        """Until cancelled."""
        ...
