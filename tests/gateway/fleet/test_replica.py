"""One replica's state."""

from __future__ import annotations

from gateway.fleet.load_report import LoadReport
from tests.gateway.examples import a_pool


def test_a_restart_is_another_cache_and_the_same_queue() -> None:
    """The incarnation changes, the work in flight does not."""
    (replica,) = a_pool("a=http://a:1").replicas
    key, workload = replica.key, replica.workload

    assert replica.restart() == replica.key == key._replace(incarnation=1)
    assert replica.workload is workload


def test_capacity_is_unknown_until_reported() -> None:
    """0 means unknown."""
    (replica,) = a_pool("a=http://a:1").replicas
    before = replica.kv_blocks
    replica.reported(LoadReport(kv_blocks=256), 5.0)

    assert (before, replica.kv_blocks, replica.reported_s) == (0, 256, 5.0)
    assert repr(replica) == "<Replica a inflight=0 incarnation=0>"
