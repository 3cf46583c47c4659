"""Heartbeat: what this process tells the others and hears of them, twice a second, in one exchange with Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Protocol

from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command

_log = logging.getLogger(__name__)


class HeartbeatPart(Protocol):
    """One command of every beat. What it does with the answer is synchronous and quick."""

    def command(self) -> Command:
        """Asked before each beat."""
        ...

    def answered(self, answer: Any) -> None:
        """Redis's reply, as it sent it; never an error."""
        ...

    def missed(self) -> None:
        """Redis did not answer this beat, or refused this command."""
        ...


class Heartbeat:
    """A part that is refused misses its beat; the others go on."""

    def __init__(
        self,
        link: RedisLink,
        parts: Sequence[HeartbeatPart],
        *,
        interval_s: float = 0.5,
        after: Sequence[Callable[[], None]] = (),
    ) -> None:
        """``interval_s``: from one beat's start to the next one's. ``after``: called after each, answered or not."""
        self._link = link
        self._parts = parts
        self._interval_s = interval_s
        self._after = after
        self._faults = {part: _fault_log(part) for part in (None, *parts)}  # None: of Redis itself

    async def run(self) -> None:
        """Beat until cancelled. May be run again after a failure."""
        clock = asyncio.get_running_loop().time
        while True:
            began_s = clock()
            await self.beat()
            await asyncio.sleep(max(0.0, began_s + self._interval_s - clock()))

    async def beat(self) -> None:
        """One exchange. Redis's failures go to the parts, never to the caller."""
        try:
            answers = await self._link.run_all([part.command() for part in self._parts])
        except RedisError as error:
            self._note(None, str(error))
            answers = [error] * len(self._parts)
        else:
            self._note(None, "")
            for part, answer in zip(self._parts, answers):
                self._note(part, str(answer) if isinstance(answer, RedisError) else "")
        for part, answer in zip(self._parts, answers):
            if isinstance(answer, RedisError):
                part.missed()
            else:
                part.answered(answer)
        for call in self._after:
            call()

    def _note(self, part: HeartbeatPart | None, fault: str) -> None:
        if fault:
            self._faults[part].failed(fault)
        else:
            self._faults[part].works()


def _fault_log(part: HeartbeatPart | None) -> FaultLog:
    name = "redis" if part is None else type(part).__name__
    return FaultLog(_log, f"heartbeat: {name}", f"heartbeat: {name}: answered again", clock=monotonic)
