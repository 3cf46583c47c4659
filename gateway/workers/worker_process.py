"""WorkerProcess: a worker as the supervisor sees it, from its birth to its end.

It knows how to give a worker its sockets and what the worker last told. When to start, retire or replace one is
others' business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from gateway.asgi_server import BACKLOG
from gateway.workers.channel import Channel, Order, Report
from gateway.workers.inheritance import Inheritance

_log = logging.getLogger(__name__)

_MOST_PATH_BYTES = 100  # the system's limit for the name of a socket is 104 to 108 bytes
_SECOND_LOOK_S = 1.0
_END_S = 10.0

State = Literal["starting", "waiting", "serving", "leaving"]
STATES: tuple[State, ...] = ("starting", "waiting", "serving", "leaving")


@dataclass(frozen=True)
class Birthplace:
    """What all workers of a supervisor share. ``folder`` is private to its user: their side sockets lie there."""

    command: Sequence[str]
    environ: Mapping[str, str]
    public: socket.socket
    folder: Path


class WorkerProcess:
    """``metrics_path`` and ``admin_path`` are its side sockets; ``report`` is what it last told."""

    def __init__(
        self, slot: int, process: asyncio.subprocess.Process, channel: Channel[Report], paths: Sequence[str]
    ) -> None:
        self.slot = slot
        self.metrics_path, self.admin_path = paths
        self.report = Report()
        self.has_spoken = False
        self.may_accept = False
        self.is_leaving = False
        self.status: int | None = None
        self.started_s = asyncio.get_running_loop().time()
        self._process = process
        self._channel = channel

    @classmethod
    async def start(cls, slot: int, name: str, birthplace: Birthplace) -> Self:
        """Start a process. ``name`` is that of no other worker's sockets. Raises ``OSError``."""
        paths = [str(birthplace.folder / f"{name}.{port}") for port in ("metrics", "admin")]
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as on_failure:
            on_failure.enter_context(ours)
            with contextlib.ExitStack() as handed_over:
                handed_over.enter_context(theirs)
                side = [handed_over.enter_context(_listen_at(path)) for path in paths]
                fds = [sock.fileno() for sock in (birthplace.public, *side, theirs)]
                process = await asyncio.create_subprocess_exec(
                    *birthplace.command,
                    "--worker",
                    str(Inheritance(slot, *fds)),
                    env=dict(birthplace.environ),
                    pass_fds=fds,
                    start_new_session=True,  # a terminal's Ctrl-C is for the supervisor
                )
            on_failure.pop_all()
        return cls(slot, process, await Channel.open(ours, Report), paths)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self.status is None

    @property
    def state(self) -> State:
        """starting: it has not spoken yet; waiting: it takes no connections yet."""
        if self.is_leaving:
            return "leaving"
        if not self.has_spoken:
            return "starting"
        return "serving" if self.report.accepting else "waiting"

    def accept(self) -> None:
        """Let it take connections even before it is ready."""
        if not self.may_accept:
            self.may_accept = True
            self._channel.say(Order("accept"))

    def leave(self, order: Literal["retire", "stop", "interrupt"], within_s: float) -> None:
        """Let it finish what runs; kill it after ``within_s``. One that has not spoken yet has nothing to finish."""
        self.is_leaving = True
        if not self.has_spoken:
            self.kill()
            return
        self._channel.say(Order(order))
        asyncio.get_running_loop().call_later(within_s, self._overdue)

    def kill(self) -> None:
        """End it at once."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def watch(
        self,
        changed: Callable[[], None],
        drained: Callable[[WorkerProcess], Awaitable[None]],
        *,
        start_s: float,
        silent_s: float,
    ) -> None:
        """Follow it to its end; ``changed`` is called after everything it tells, and at its end.

        ``drained`` is awaited when it has no answers left to give, before its side sockets close. It is killed when
        it does not speak within ``start_s`` of its start, or later for ``silent_s``: its event loop hangs.
        """
        try:
            while (report := await self._hear(silent_s if self.has_spoken else start_s)) is not None:
                self.report, self.has_spoken = report, True
                if report.drained:
                    await drained(self)
                    self._channel.say(Order("end"))
                changed()
        except TimeoutError:
            _log.error("worker %d (pid %d) hangs: it is killed", self.slot, self.pid)
            self.kill()
        try:
            self.status = await self._end()
        finally:
            self._channel.close()
            for path in (self.metrics_path, self.admin_path):
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108 - they are names of sockets, not of files
            changed()

    async def _hear(self, timeout_s: float) -> Report | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._channel.hear()
        except TimeoutError:
            async with asyncio.timeout(_SECOND_LOOK_S):  # it may be the supervisor that slept, and much be unread
                return await self._channel.hear()

    async def _end(self) -> int:
        """The exit status; negative: the signal that ended it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                return await self._process.wait()
        self.kill()
        return await self._process.wait()

    def _overdue(self) -> None:
        if self.is_alive:
            _log.error("worker %d (pid %d) did not leave in time: it is killed", self.slot, self.pid)
            self.kill()


def _listen_at(path: str) -> socket.socket:
    if len(path.encode()) > _MOST_PATH_BYTES:
        raise OSError(f"the name of a socket is too long: {path}: set TMPDIR to a shorter folder")
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
