"""What a pool keeps of those that left: nothing, however many come and go."""

from __future__ import annotations

import tracemalloc

from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server_spec import parse_servers

_PODS = 2_000


def test_addresses_that_are_gone_are_forgotten() -> None:
    """Of pods that are replaced each has another address."""
    pool = ReplicaPool()

    def replace(first: int) -> int:
        """Bytes in use once as many pods came after each other."""
        for number in range(first, first + _PODS):
            pool.reconcile(parse_servers(f"pod-{number}=http://10.{number // 250}.{number % 250}.1:8000"))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        replace(0)
        before = replace(_PODS)
        after = replace(2 * _PODS)
    finally:
        tracemalloc.stop()

    assert after - before < 20 * _PODS  # bytes: less than any entry
