"""What is told where nobody indexes."""

from __future__ import annotations

import logging

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.indexing_watch import IndexingWatch
from tests.gateway.examples import Clock

KEYS = [ReplicaKey("m", id_) for id_ in "dcba"]


def test_what_is_missing_for_long_is_named_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """Not what is on its way at a start; once; and when it is over."""
    caplog.set_level(logging.INFO)
    clock, indexed = Clock(), set[ReplicaKey]()
    watch = IndexingWatch(lambda: KEYS, indexed.__contains__, clock=clock)
    watch.look()
    clock.now += 9
    watch.look()
    assert not caplog.messages

    for _ in range(3):
        clock.now += 2
        watch.look()
    indexed.update(KEYS)
    watch.look()

    told, over = caplog.messages
    assert "a, b, c ...: run `prefixway index`" in told
    assert over == "the events of all replicas are indexed"


def test_a_short_gap_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    """As when replicas come one by one."""
    clock, indexed = Clock(), set[ReplicaKey]()
    watch = IndexingWatch(lambda: KEYS, indexed.__contains__, clock=clock)
    for _ in range(5):
        indexed.clear()
        watch.look()
        clock.now += 6
        indexed.update(KEYS)
        watch.look()

    assert not caplog.messages
