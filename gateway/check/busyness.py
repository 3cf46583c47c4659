"""Does a replica have work waiting: no check makes that worse.

A report is a moment, seen a while ago: one request that had just arrived is no reason to leave a check out.
"""

from __future__ import annotations

import asyncio

from gateway.fleet.replica import Replica

#: For at least one more report at the usual interval between probes.
PATIENCE_S = 3.0
_LOOK_S = 0.05


def is_busy(replica: Replica) -> bool:
    """By its last report."""
    return bool(replica.report.waiting)


async def stays_busy(replica: Replica, patience_s: float = PATIENCE_S) -> bool:
    """By every report of the next ``patience_s`` seconds; False as soon as one says otherwise."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + patience_s
    while is_busy(replica):  # probes replace the report
        if loop.time() >= until_s:
            return True
        await asyncio.sleep(_LOOK_S)
    return False
