"""Post: one place for a worker. It is filled again when its worker dies, and handed over to a successor on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from gateway.workers.crew_listener import CrewListener
from gateway.workers.limits import Limits
from gateway.workers.tally import Tally
from gateway.workers.worker_process import WorkerProcess

_log = logging.getLogger(__name__)


class Post:
    """``run`` it once. ``holder`` is the worker that counts; for a while there may be a successor or a leaving one."""

    def __init__(
        self,
        slot: int,
        start: Callable[[int], Awaitable[WorkerProcess]],
        *,
        limits: Limits,
        tally: Tally,
        listener: CrewListener,
        changed: Callable[[], None],
    ) -> None:
        """``start`` starts a process for a slot, or raises ``OSError``; ``changed`` is called whenever workers do."""
        self.slot = slot
        self.holder: WorkerProcess | None = None
        self.has_failed_with: int | None = None  # the exit status of a first worker that never spoke
        self.has_spoken = False
        self.workers: list[WorkerProcess] = []
        self._start = start
        self._limits = limits
        self._tally = tally
        self._listener = listener
        self._tell = changed
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._renewal: asyncio.Future[bool] | None = None
        self._young_deaths = 0

    async def run(self) -> None:
        """Keep the place filled until :meth:`stop`; return when its workers have left."""
        async with asyncio.TaskGroup() as group:
            while not self._stopping.is_set():
                await self._pause()
                self.holder = await self._hire(group)
                await self._attend(group)
            self.holder = None
            self._answer(renewed=False)

    async def renew(self) -> bool:
        """Start a successor, and let the holder leave when it is ready. False: it never was; the holder stays."""
        if self._stopping.is_set():
            return False
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_future()
            self._changed.set()
        return await asyncio.shield(self._renewal)

    def stop(self, *, linger: bool = True) -> None:
        """Let every worker here leave, and fill the place no more. ``linger``: serve load balancers for a while yet."""
        self._stopping.set()
        for worker in self.workers:
            worker.leave("stop" if linger else "interrupt", self._limits.leave_s)
        self._on_change()

    def kill(self) -> None:
        """End every worker here at once."""
        for worker in self.workers:
            worker.is_leaving = True
            worker.kill()

    # Filling the place

    async def _pause(self) -> None:
        """Before a worker that follows one which died young."""
        if self._young_deaths:
            pause_s = min(self._limits.first_pause_s * 2 ** (self._young_deaths - 1), self._limits.longest_pause_s)
            _log.warning("worker %d starts again in %g s", self.slot, pause_s)
            await self._until(self._stopping.is_set, pause_s)

    async def _hire(self, group: asyncio.TaskGroup) -> WorkerProcess | None:
        """A worker that was started and is watched; ``None`` where that failed, or is no longer wanted."""
        if self._stopping.is_set():
            return None
        try:
            worker = await self._start(self.slot)
        except OSError as error:
            _log.error("worker %d does not start: %s", self.slot, error.strerror or error)
            self._young_deaths += 1
            return None
        self.workers.append(worker)
        self._listener.joined(worker)
        group.create_task(self._watch(worker))
        if self._stopping.is_set():
            worker.leave("stop", self._limits.leave_s)
        _log.info("worker %d started, pid %d", self.slot, worker.pid)
        self._tell()
        return worker

    async def _watch(self, worker: WorkerProcess) -> None:
        try:
            await worker.watch(
                self._on_change,
                self._listener.drained,
                start_s=self._limits.start_s,
                silent_s=self._limits.silent_s,
            )
        finally:
            worker.kill()
            self.workers.remove(worker)
            self._listener.left(worker)
            self._account(worker)
            self._on_change()

    def _account(self, worker: WorkerProcess) -> None:
        status = worker.status
        if worker.is_leaving:
            _log.info("worker %d (pid %d) has left, status %s", self.slot, worker.pid, status)
            return
        self._tally.deaths += 1
        self._tally.connections_lost += worker.report.connections
        is_young = asyncio.get_running_loop().time() - worker.started_s < self._limits.young_s
        self._young_deaths = self._young_deaths + 1 if is_young else 0
        if not self.has_spoken and status is not None:
            self.has_failed_with = status
        _log.error(
            "worker %d (pid %d) died, status %s, with %d connections open",
            self.slot,
            worker.pid,
            status,
            worker.report.connections,
        )

    # Holding it

    async def _attend(self, group: asyncio.TaskGroup) -> None:
        """Until the place is empty: its holder died, or all leave."""
        while self.holder is not None and self.holder.is_alive:
            await self._until(self._needs_care)
            if self._wants_successor(self.holder):
                await self._succeed(self.holder, group)

    def _needs_care(self) -> bool:
        return self.holder is None or not self.holder.is_alive or self._wants_successor(self.holder)

    def _wants_successor(self, holder: WorkerProcess) -> bool:
        asked = self._renewal is not None and not self._renewal.done()
        return holder.is_alive and not self._stopping.is_set() and (asked or holder.report.asks_to_leave)

    async def _succeed(self, holder: WorkerProcess, group: asyncio.TaskGroup) -> None:
        """Give the place to a worker that is as ready as ``holder``, which then leaves; or leave things as they are."""
        successor = await self._hire(group)
        if successor is not None:
            await self._until(
                lambda: self._stopping.is_set() or not successor.is_alive or _is_fit(successor, holder),
                self._limits.ready_s,
            )
        if successor is None or not successor.is_alive or not _is_fit(successor, holder):
            await self._give_up(successor, holder)
            return
        self.holder = successor
        self._tell()  # so that somebody accepts before the old one leaves
        if holder.is_alive and not self._stopping.is_set():
            holder.leave("retire", self._limits.leave_s)
            self._tally.replacements += 1
            self._young_deaths = 0
            await self._until(lambda: not holder.is_alive)
        self._answer(renewed=True)

    async def _give_up(self, successor: WorkerProcess | None, holder: WorkerProcess) -> None:
        if self._stopping.is_set():
            return
        _log.error("worker %d has no successor that gets ready", self.slot)
        if successor is not None and successor.is_alive:
            successor.is_leaving = True
            successor.kill()
            await self._until(lambda: not successor.is_alive)
        self._answer(renewed=False)
        await self._until(lambda: self._stopping.is_set() or not holder.is_alive, self._limits.young_s)

    def _answer(self, *, renewed: bool) -> None:
        if self._renewal is not None and not self._renewal.done():
            self._renewal.set_result(renewed)

    # Waiting

    def _on_change(self) -> None:
        self.has_spoken = self.has_spoken or any(worker.has_spoken for worker in self.workers)
        self._changed.set()
        self._tell()

    async def _until(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Return when ``condition()`` holds or time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()


def _is_fit(successor: WorkerProcess, holder: WorkerProcess) -> bool:
    """Whether clients lose nothing when it takes over."""
    return successor.has_spoken and (successor.report.ready or not holder.report.ready or not holder.is_alive)
