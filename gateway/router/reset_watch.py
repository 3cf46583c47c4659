"""ResetWatch: sees clients empty a replica's prefix cache through this gateway.

The engine tells that by events only with its next step, and until then would be credited with what it forgot. A reset
that goes past us is seen at the next probe.
"""

from __future__ import annotations

from gateway.fleet.load_report import RESETTING
from gateway.fleet.replica_pool import ReplicaPool
from gateway.router.exchange import Exchange


class ResetWatch:
    """Observes exchanges, at their end. A 200 counts as done, also where vLLM's body says that the cache is in use."""

    def __init__(self, pool: ReplicaPool) -> None:
        self._pool = pool

    def observe(self, exchange: Exchange) -> None:
        """Let the pool know, if it was one."""
        if exchange.control not in RESETTING or exchange.status != 200 or exchange.decision is None:
            return
        for replica in self._pool.replicas:
            if replica.id == exchange.decision.replica_id:
                self._pool.cache_reset(replica.server)
                return
