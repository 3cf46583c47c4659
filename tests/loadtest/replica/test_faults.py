"""The list of what is to go wrong."""

from __future__ import annotations

import asyncio

import pytest

from loadtest.replica.faults import HEALTHY, Fault, Faults
from tests.fakes.waiting import eventually


def test_the_next_ones_come_before_the_standing_one() -> None:
    """In the order they were added, each as often as asked, then what always goes wrong."""
    faults = Faults()
    busy, broken, always = Fault(status=429), Fault(status=500), Fault(status=503)
    faults.always = always
    faults.add(busy, times=2)
    faults.add(broken)

    assert [faults.take() for _ in range(5)] == [busy, busy, broken, always, always]


def test_clearing_forgets_everything() -> None:
    """Health, splitting, queued and standing faults."""
    faults = Faults()
    faults.apply({"fault": {"status": 500}, "health_status": 503, "split_bytes": 3})
    faults.apply({"fault": {"status": 429}, "times": 9})
    faults.apply({"clear": True})

    assert (faults.take(), faults.health_status, faults.split_bytes) == (HEALTHY, 200, 0)


@pytest.mark.parametrize("cues", [{"nonsense": 1}, {"fault": {"nonsense": 1}}])
def test_an_unknown_cue_is_an_error(cues: dict[str, object]) -> None:
    """A test that misspells a fault must not pass for want of it."""
    with pytest.raises(ValueError, match="nonsense"):
        Faults().apply(cues)


async def test_release_frees_those_that_stall_now() -> None:
    """One that stalls afterwards waits for the next release."""
    faults = Faults()
    async with asyncio.TaskGroup() as tasks:
        stalled = [tasks.create_task(faults.stall()) for _ in range(3)]
        await eventually(lambda: faults.stalled == 3)
        faults.release()
        await asyncio.gather(*stalled)
        late = tasks.create_task(faults.stall())
        await eventually(lambda: faults.stalled == 1)
        assert not late.done()
        faults.release()
