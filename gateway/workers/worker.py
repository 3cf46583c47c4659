"""Worker: a gateway that is one of several. It tells the supervisor how it is, and does as it is told.

It ends by itself when the supervisor is gone: its answers still get out, but nobody could stop it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from gateway.workers.channel import Channel, Order, Report

_log = logging.getLogger(__name__)

_GLANCE_S = 0.05
_ALIVE_S = 1.0
_FAREWELL_S = 5.0


class Serving(Protocol):
    """What a worker needs of its gateway."""

    @property
    def connections(self) -> int: ...

    @property
    def accepts(self) -> bool: ...

    def is_ready(self) -> bool: ...

    def accept(self) -> None: ...

    def retire(self) -> None: ...

    def stop(self, *, linger: bool = True) -> None: ...

    async def run(self, before_end: Callable[[], Awaitable[None]]) -> None: ...


class Worker:
    """``run`` it once. ``channel`` is its own from here."""

    def __init__(self, gateway: Serving, channel: Channel[Order]) -> None:
        self._gateway = gateway
        self._channel = channel
        self._asks_to_leave = False
        self._drained = False
        self._may_end = asyncio.Event()
        self.is_orphan = False

    def leave(self) -> None:
        """Ask for a successor and leave when it is ready, as after SIGTERM."""
        self._asks_to_leave = True

    async def run(self) -> None:
        """Serve until told to leave, or until the supervisor is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                talk = [group.create_task(self._report()), group.create_task(self._obey())]
                await self._gateway.run(self._farewell)
                for task in talk:
                    task.cancel()
        finally:
            self._channel.close()

    async def _report(self) -> None:
        """The connections change with every client: a glance now and then costs less than telling each change."""
        clock = asyncio.get_running_loop().time
        told, told_s = None, 0.0
        while True:
            if self._gateway.is_ready():
                self._gateway.accept()
            report = self._state()
            if report != told or clock() - told_s >= _ALIVE_S:
                self._channel.say(report)
                told, told_s = report, clock()
            await asyncio.sleep(_GLANCE_S)

    def _state(self) -> Report:
        gateway = self._gateway
        return Report(
            gateway.connections, gateway.is_ready(), gateway.accepts, self._asks_to_leave, drained=self._drained
        )

    async def _obey(self) -> None:
        while (order := await self._channel.hear()) is not None:
            match order.do:
                case "accept":
                    self._gateway.accept()
                case "retire":
                    self._gateway.retire()
                case "stop":
                    self._gateway.stop()
                case "interrupt":
                    self._gateway.stop(linger=False)
                case "end":
                    self._may_end.set()
        _log.warning("the supervisor is gone: this worker ends when its answers are out")
        self.is_orphan = True
        self._may_end.set()
        self._gateway.retire()  # at once, so that the port is free for the next supervisor
        self._gateway.stop()

    async def _farewell(self) -> None:
        """Give the supervisor the time to read the counters once more."""
        self._drained = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._may_end.wait()


def clear_away(paths: list[str]) -> None:
    """Remove an orphan's sockets from the file system, and the folder with the last of them."""
    for path in map(Path, paths):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()
