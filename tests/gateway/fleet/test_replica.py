"""One replica's state."""

from __future__ import annotations

from gateway.fleet.inflight import InFlight
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


def test_strangers_of_an_engine_that_stands_still_are_not_believed() -> None:
    """vLLM tells of aborted requests until its next step, which may never come if nobody is sent there."""
    (replica,) = a_pool("a=http://a:1").replicas
    believed = []
    for now, generated in [(0.0, 7.0), (2.0, 8.0), (4.0, 8.0), (6.0, 8.0), (8.0, 8.0), (10.0, 9.0)]:
        replica.reported(LoadReport(running=106, waiting=15, kv_usage=0.9, generated_tokens=generated), now)
        believed.append(replica.strangers is not None)

    assert believed == [True, True, True, True, False, True]


def test_strangers_of_an_engine_that_counts_nothing_are_believed() -> None:
    """That what it reports stays the same may be chance."""
    (replica,) = a_pool("a=http://a:1").replicas
    for now in (0.0, 10.0, 20.0):
        replica.reported(LoadReport(running=4, waiting=0), now)

    assert replica.strangers == (4, 0.0)


def test_what_ends_while_a_report_is_on_its_way_is_no_stranger() -> None:
    """It may be in the report, and is in our books no more."""
    (replica,) = a_pool("a=http://a:1").replicas
    requests = [InFlight(1.0, 1.0, 100, 1.0, streamed=True, dispatched_s=0.0) for _ in range(3)]
    for request in requests:
        replica.workload.dispatch(request, 0.0)
    replica.asked()
    replica.workload.end(requests[0])
    replica.reported(LoadReport(running=3, waiting=0), 1.0)
    seen = [replica.strangers]
    replica.asked()
    replica.reported(LoadReport(running=3, waiting=0), 2.0)
    seen.append(replica.strangers)

    assert seen == [None, (1, 0.0)]
