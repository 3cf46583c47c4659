"""What a log is told of faults."""

from __future__ import annotations

import logging

import pytest

from gateway.shared.link.fault_log import FaultLog
from tests.gateway.examples import Clock

_LOGGER = logging.getLogger("gateway.test_fault_log")


@pytest.fixture
def clock(caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.INFO)
    return Clock()


def test_a_fault_is_told_once_and_its_end_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its reasons are called meanwhile."""
    faults = FaultLog(_LOGGER, "redis", "redis works again", clock=clock)
    faults.works()
    for why in ("reset", "refused", "reset"):
        faults.failed(why)
    faults.works()
    faults.works()

    assert caplog.messages == ["redis: reset", "redis works again"]


def test_what_flaps_is_told_now_and_then(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Every half minute at most."""
    faults = FaultLog(_LOGGER, "redis", "redis works again", clock=clock)
    for _ in range(100):
        faults.failed("full")
        faults.works()
        clock.now += 1

    assert caplog.messages.count("redis: full") == 4


def test_what_begins_in_the_quiet_and_lasts_is_told_after_it(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A long trouble is never missed for the sake of a short one before it."""
    faults = FaultLog(_LOGGER, "redis", "redis works again", clock=clock)
    faults.failed("a blip")
    faults.works()
    clock.now += 10
    faults.failed("slow")
    assert "redis: slow" not in caplog.messages
    clock.now += 21
    faults.failed("still slow")

    assert caplog.messages[-1] == "redis: still slow"
