"""Whoever writes the index may be killed or replaced under load: readers see no difference, and nothing is lost.

Real processes; replicas whose replay holds far less than they have published, so that whoever comes later can learn
the rest only from somebody who was there.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from loadtest.replica import ReplicaOptions
from tests.end_to_end.house import FAST
from tests.end_to_end.prediction_watch import PredictionWatch, longest_dip_s
from tests.end_to_end.process_house import Process, ProcessHouse, process_house
from tests.fakes.waiting import eventually

BUFFER_STEPS = 100  # about three seconds of what is published here
OPTIONS = ReplicaOptions(speeds=FAST, buffer_steps=BUFFER_STEPS, capacity_blocks=1024)
LONGEST_DIP_S = 2.0
TURN_S = 0.25
SETTLED_TURNS = 14  # which take longer than that
PAUSE_S = 0.08


class Cast(NamedTuple):
    """``writers``: the first writes all replicas. ``gateways``: all that serve; the last one only reads."""

    writers: list[Process]
    gateways: list[Process]


async def start(house: ProcessHouse, command: str, writers: int = 2) -> Cast:
    """Who writes is gateways, or indexers for gateways that only read."""
    readers = [house.start(indexer="outside") for _ in range(1 if command == "serve" else 2)]
    first, *read = await asyncio.gather(house.start(command), *readers)
    await first.until(lambda: len(first.writes()) == len(house.shared.replicas))
    wrote = [first, *await asyncio.gather(*(house.start(command) for _ in range(writers - 1)))]
    return Cast(wrote, [*(wrote if command == "serve" else []), *read])


@asynccontextmanager
async def watched(house: ProcessHouse, gateways: Sequence[Process]) -> AsyncIterator[PredictionWatch]:
    """What the last gateway predicts, under load; once replicas have evicted, and published more than they replay.

    Until then everybody hurries.
    """
    watch = PredictionWatch(gateways[-1].client, house.words)
    house.traffic.in_service += gateways
    async with house.traffic.going_on(), watch.going_on():
        await eventually(lambda: watch.is_warm() and house.published() > 2 * BUFFER_STEPS, timeout_s=40)
        house.traffic.pause_s, watch.every_s = PAUSE_S, TURN_S
        await seen(watch, 1)
        yield watch


async def seen(watch: PredictionWatch, turns: int) -> None:
    """So many more."""
    wanted = len(watch.samples) + turns
    await eventually(lambda: len(watch.samples) >= wanted, timeout_s=60)


async def is_true_and_agreed(house: ProcessHouse, watch: PredictionWatch, gateways: Sequence[Process]) -> None:
    """After the load: the index is the caches, and everybody predicts what comes true."""
    await eventually(lambda: not house.is_true(), timeout_s=20)
    told = [await watch.ask_again(gateway.client) for gateway in gateways]
    assert all(predicted == had > 0 for _, predicted, had in told[0])
    assert all(each == told[0] for each in told)


@pytest.mark.parametrize("command", ["serve", "index"])
async def test_the_writer_is_killed_and_then_all_are_replaced(command: str) -> None:
    """Two that can write, another that reads. Predictions are never low for long, and no request fails."""
    async with process_house(OPTIONS) as house:
        (holder, other), gateways = await start(house, command)
        async with watched(house, gateways) as watch:
            level, before = watch.level(), len(watch.samples)
            await house.kill(holder)
            await seen(watch, SETTLED_TURNS)
            substitute = await house.join(command)
            for process in (other, substitute):
                await house.leave(process)
                newest = await house.join(command)
            await seen(watch, SETTLED_TURNS)

        assert house.published() > 5 * BUFFER_STEPS
        assert not [*house.traffic.failures, *watch.failures]
        assert longest_dip_s(watch.samples[before:], level) <= LONGEST_DIP_S, watch.samples[before:]
        await is_true_and_agreed(house, watch, [newest if command == "serve" else gateways[0], gateways[-1]])


async def test_a_writer_that_was_asleep_spoils_nothing() -> None:
    """Another one took over meanwhile. What the sleeper still writes goes where nobody reads."""
    async with process_house(OPTIONS) as house:
        (sleeper, other), gateways = await start(house, "index")
        async with watched(house, gateways) as watch:
            level, before = watch.level(), len(watch.samples)
            sleeper.running.process.send_signal(signal.SIGSTOP)
            try:
                await other.until(lambda: len(other.writes()) == 3)
                await seen(watch, SETTLED_TURNS)
            finally:
                sleeper.running.process.send_signal(signal.SIGCONT)
            await seen(watch, SETTLED_TURNS)

        assert not [*house.traffic.failures, *watch.failures]
        assert longest_dip_s(watch.samples[before:], level) <= LONGEST_DIP_S, watch.samples[before:]
        await is_true_and_agreed(house, watch, gateways)


async def test_without_anybody_to_take_over_it_shows() -> None:
    """What is measured above can fail: predictions stay low where the only writer is killed."""
    async with process_house(OPTIONS) as house:
        (writer,), gateways = await start(house, "index", writers=1)
        async with watched(house, gateways) as watch:
            level, before = watch.level(), len(watch.samples)
            await house.kill(writer)
            await seen(watch, SETTLED_TURNS)

    assert longest_dip_s(watch.samples[before:], level) > LONGEST_DIP_S
