"""PollingDiscovery: looks replicas up again and again, wherever they are listed.

A look-up that fails changes nothing: whoever was found stays, and the probes tell who is down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from gateway.fleet.server_spec import ServerSpec

_log = logging.getLogger(__name__)
_MOST_TOLD = 20  # at a time: a thousand entries may have the same fault


class Found(NamedTuple):
    """All servers that a directory lists, and the ids of those that it says are not ready for requests.

    ``faults``: what is wrong with single entries, each as a sentence; the list holds without them.
    """

    specs: Sequence[ServerSpec]
    held_back: Collection[str] = ()
    faults: Sequence[str] = ()


class LookupFailed(Exception):
    """The directory did not answer, or not with a list. The message says why, for people."""


class Directory(Protocol):
    """Where replicas are listed."""

    async def look_up(self) -> Found:
        """All that are there now. Raises :class:`LookupFailed`."""
        ...

    async def close(self) -> None: ...


class PollingDiscovery:
    """``found`` is handed each list that differs from the one before, and which of them are held back."""

    def __init__(
        self,
        directory: Directory,
        found: Callable[[Sequence[ServerSpec], Collection[str]], None],
        *,
        clock: Callable[[], float],
        interval_s: float,
    ) -> None:
        self._directory = directory
        self._found = found
        self._clock = clock
        self.interval_s = interval_s
        self._last: Found | None = None
        self._answered_s = clock()  # or when it was first to be asked
        self.answered = asyncio.Event()  # at least once
        self.fault = ""  # why the last look-up failed; "": it did not
        self.failures = 0

    @property
    def age_s(self) -> float:
        """How old the list is; where there is none yet, for how long one has been missing."""
        return self._clock() - self._answered_s

    @property
    def entry_faults(self) -> Sequence[str]:
        """What is wrong with single entries of the list."""
        return self._last.faults if self._last is not None else ()

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self.interval_s)
        finally:
            with suppress(Exception):
                await self._directory.close()

    async def look(self) -> None:
        """Once."""
        try:
            found = await self._directory.look_up()
        except LookupFailed as failure:
            self._failed(str(failure))
            return
        if self.fault:
            _log.info("replicas can be looked up again")
        self.fault, self._answered_s = "", self._clock()
        if found != self._last:
            self._found(found.specs, found.held_back)
            self._tell(found.faults)
            self._last = found
        self.answered.set()

    def _tell(self, faults: Sequence[str]) -> None:
        """Each for as long as it stands once."""
        known = set(self.entry_faults)
        new = [fault for fault in dict.fromkeys(faults) if fault not in known]
        for fault in new[:_MOST_TOLD]:
            _log.warning("of the replicas that are listed: %s", fault)
        if len(new) > _MOST_TOLD:
            _log.warning("of the replicas that are listed: and %d more faults of that kind", len(new) - _MOST_TOLD)

    def _failed(self, fault: str) -> None:
        self.failures += 1
        if fault != self.fault:
            kept = "keeping those that were found" if self._last is not None else "there are none yet"
            _log.error("replicas cannot be looked up, %s: %s", kept, fault)
        self.fault = fault
