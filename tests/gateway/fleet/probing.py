"""Probes that run, and a pool for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from gateway.fleet.probes import Probes
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers
from tests.fakes.background import running


@asynccontextmanager
async def probing(pool: ReplicaPool, **options: Any) -> AsyncIterator[Probes]:
    """``options`` of :class:`Probes`; rounds follow each other quickly."""
    usual = {"clock": monotonic, "interval_s": 0.02, "timeout_s": 2.0, "sources": lambda _spec, _rank: None}
    probes = Probes(pool, **{**usual, **options})
    async with running(probes.run()):
        yield probes


def pool_of(*urls: str) -> ReplicaPool:
    """Servers as ``PREFIXWAY_REPLICAS`` has them."""
    pool = ReplicaPool()
    pool.reconcile(parse_servers(",".join(urls)))
    return pool
