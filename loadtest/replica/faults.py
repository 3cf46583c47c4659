"""Faults: how a simulated replica misbehaves, on cue.

Owns the list of what is to go wrong. Does not know how: the API asks at each generation request and acts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one generation request. The default is: nothing."""

    status: int = 0  # answer this instead, e.g. 429, 500, 503
    retry_after_s: int | None = None
    stall_before_head: bool = False  # until released or the client leaves
    stall_after_chunks: int | None = None  # 0: between the head and the first chunk
    die_after_chunks: int | None = None  # 0: right after the head
    reset: bool = True  # die by RST; False: by FIN


HEALTHY = Fault()


class Faults:
    """The cues of one replica. Attributes may be set at any time."""

    def __init__(self) -> None:
        self.always = HEALTHY
        self.health_status = 200
        self.split_bytes = 0  # write answers in pieces of this size; 0: whole
        self.stalled = 0  # requests that wait for release()
        self._next: deque[Fault] = deque()
        self._released = asyncio.Event()

    def add(self, fault: Fault, times: int = 1) -> None:
        """Use ``fault`` for the next ``times`` generation requests, after those already added."""
        self._next.extend([fault] * times)

    def take(self) -> Fault:
        """The fault for the request at hand."""
        return self._next.popleft() if self._next else self.always

    async def stall(self) -> None:
        """Return when somebody calls :meth:`release`."""
        self.stalled += 1
        try:
            await self._released.wait()
        finally:
            self.stalled -= 1

    def release(self) -> None:
        """Let every stalled request go on; those that stall later wait again."""
        self._released.set()
        self._released = asyncio.Event()

    def clear(self) -> None:
        """Behave again."""
        self.always = HEALTHY
        self.health_status = 200
        self.split_bytes = 0
        self._next.clear()
        self.release()

    def apply(self, cues: Mapping[str, Any]) -> None:
        """Cues as JSON: ``{"fault": {...}, "times": 2}`` and attributes of this class. Or ``ValueError``."""
        try:
            self._apply(**cues)
        except TypeError as error:
            raise ValueError(f"no such cue: {error}") from error

    def _apply(
        self,
        *,
        clear: bool = False,
        fault: Mapping[str, Any] | None = None,
        times: int | None = None,
        health_status: int | None = None,
        split_bytes: int | None = None,
    ) -> None:
        if clear:
            self.clear()
        if fault is not None and times is None:
            self.always = Fault(**fault)
        elif fault is not None:
            self.add(Fault(**fault), times or 0)
        if health_status is not None:
            self.health_status = health_status
        if split_bytes is not None:
            self.split_bytes = split_bytes
