"""A worker tells how it is and does as it is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from gateway.workers.channel import Channel, Order, Report
from gateway.workers.worker import Worker, clear_away
from tests.fakes.waiting import eventually


class Gateway:
    """What a worker sees of one; the test sets its state and reads what it was told to do."""

    def __init__(self) -> None:
        self.connections = 0
        self.ready = False
        self.told: list[str] = []
        self._end = asyncio.Event()

    @property
    def accepts(self) -> bool:
        return "accept" in self.told

    def is_ready(self) -> bool:
        return self.ready

    def accept(self) -> None:
        if not self.accepts:
            self.told.append("accept")

    def retire(self) -> None:
        self.told.append("retire")
        self._end.set()

    def stop(self, *, linger: bool = True) -> None:
        self.told.append("stop" if linger else "interrupt")
        self._end.set()

    async def run(self, before_end: Callable[[], Awaitable[None]]) -> None:
        await self._end.wait()
        await before_end()


class Life:
    """A worker, its gateway, and the supervisor's end of its channel with the last report there."""

    def __init__(self, worker: Worker, gateway: Gateway, channel: Channel[Report]) -> None:
        self.worker, self.gateway, self.channel = worker, gateway, channel
        self.reports: list[Report] = []
        self.running = asyncio.ensure_future(worker.run())
        self._listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while (report := await self.channel.hear()) is not None:
            self.reports.append(report)

    @property
    def last(self) -> Report:
        return self.reports[-1] if self.reports else Report()


@asynccontextmanager
async def life() -> AsyncIterator[Life]:
    ours, theirs = socket.socketpair()
    gateway = Gateway()
    alive = Life(Worker(gateway, await Channel.open(theirs, Order)), gateway, await Channel.open(ours, Report))
    yield alive
    alive.channel.close()
    await alive.running


async def test_it_accepts_when_it_is_ready_and_tells_every_change() -> None:
    """Connections come and go in its reports."""
    async with life() as alive:
        await eventually(lambda: alive.reports)
        assert alive.last == Report()
        alive.gateway.ready, alive.gateway.connections = True, 5
        await eventually(lambda: alive.last == Report(5, ready=True, accepting=True))
        alive.gateway.connections = 0
        await eventually(lambda: alive.last.connections == 0)


async def test_it_tells_that_it_is_alive() -> None:
    """Without any change too."""
    async with life() as alive:
        await eventually(lambda: len(alive.reports) > 1)

    assert alive.reports[0] == alive.reports[1]


async def test_it_accepts_on_order_though_it_is_not_ready() -> None:
    """Somebody must tell clients that nothing is ready."""
    async with life() as alive:
        alive.channel.say(Order("accept"))
        await eventually(lambda: alive.last == Report(accepting=True))


@pytest.mark.parametrize("order", ["stop", "interrupt"])
async def test_it_stops_as_it_is_told(order: Literal["stop", "interrupt"]) -> None:
    """With time for load balancers, or without."""
    async with life() as alive:
        alive.channel.say(Order(order))
        await eventually(lambda: alive.last.drained)
        assert alive.gateway.told == [order]


async def test_it_leaves_on_order_and_waits_for_the_last_reading() -> None:
    """Drained, it stays until it is told that nothing more is wanted of it."""
    async with life() as alive:
        alive.channel.say(Order("retire"))
        await eventually(lambda: alive.last.drained)
        assert not alive.running.done()
        alive.channel.say(Order("end"))
        await eventually(alive.running.done)

    assert alive.gateway.told == ["retire"]
    assert not alive.worker.is_orphan


async def test_a_signal_to_it_alone_asks_for_a_successor() -> None:
    """It goes on serving until it is told to leave."""
    async with life() as alive:
        alive.worker.leave()
        await eventually(lambda: alive.last.asks_to_leave)
        assert alive.gateway.told == []


async def test_without_a_supervisor_it_ends_by_itself() -> None:
    """It takes no more connections, drains and says goodbye to nobody."""
    async with life() as alive:
        await eventually(lambda: alive.reports)
        alive.channel.close()
        await eventually(alive.running.done)

    assert alive.gateway.told == ["retire", "stop"]
    assert alive.worker.is_orphan


def test_orphans_clear_away_their_sockets(tmp_path: Path) -> None:
    """And the folder, which goes with the last one."""
    folder = tmp_path / "prefixway-x"
    folder.mkdir()
    paths = [str(folder / name) for name in ("1.metrics", "1.admin", "2.metrics")]
    for path in paths[:1] + paths[2:]:
        Path(path).touch()

    clear_away(paths[:2])
    assert [path.name for path in folder.iterdir()] == ["2.metrics"]
    clear_away(paths[2:])
    assert not folder.exists()
