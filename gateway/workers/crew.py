"""Crew: all workers of a supervisor. Who of them accepts, when they are replaced in turn, when they all leave."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from gateway.workers.crew_listener import CrewListener
from gateway.workers.limits import Limits
from gateway.workers.post import Post
from gateway.workers.tally import Tally
from gateway.workers.worker_process import STATES, State, WorkerProcess

_log = logging.getLogger(__name__)


class Crew:
    """``run`` it once."""

    def __init__(
        self,
        size: int,
        start: Callable[[int], Awaitable[WorkerProcess]],
        *,
        limits: Limits,
        listener: CrewListener,
    ) -> None:
        """``start`` starts a process for a slot (from 1), or raises ``OSError``."""
        self.tally = Tally()
        self._posts = [
            Post(slot, start, limits=limits, tally=self.tally, listener=listener, changed=self._on_change)
            for slot in range(1, size + 1)
        ]
        self._changed = asyncio.Event()
        self._renewal_wanted = asyncio.Event()
        self._stopping = False
        self._killed = False

    @property
    def workers(self) -> Sequence[WorkerProcess]:
        """Every process that is there, leaving ones too."""
        return [worker for post in self._posts for worker in post.workers]

    @property
    def is_ready(self) -> bool:
        """Whether any worker is, and they are not all leaving."""
        return not self._stopping and any(worker.report.ready for worker in self.workers if not worker.is_leaving)

    def states(self) -> dict[State, int]:
        """How many workers are in each state."""
        counted = Counter(worker.state for worker in self.workers)
        return {state: counted[state] for state in STATES}

    def stop(self, *, linger: bool = True) -> None:
        """Let all workers finish what runs, and :meth:`run` return. Asked again: end them at once.

        ``linger``: first they serve on for a while, for load balancers.
        """
        if self._stopping:
            self._killed = True
            for post in self._posts:
                post.kill()
            return
        self._stopping = True
        for post in self._posts:
            post.stop(linger=linger)
        self._on_change()

    def renew(self) -> None:
        """Replace all workers, one after the other, each by one that is ready before the old one leaves."""
        self._renewal_wanted.set()

    async def run(self) -> int:
        """Keep all places filled until :meth:`stop`. The exit status: not 0 where the first worker could not start,
        which is told by that worker, or where workers had to be ended."""
        first, *others = self._posts
        async with asyncio.TaskGroup() as group:
            posts = [group.create_task(first.run())]
            await self._until_started(first)
            for post in others:
                posts.append(group.create_task(post.run()))
                await asyncio.sleep(0)  # to start a process blocks: a signal is heard before the next one
            renewing = group.create_task(self._renew_when_asked())
            await asyncio.gather(*posts)
            renewing.cancel()
        if first.has_failed_with:
            return first.has_failed_with if first.has_failed_with > 0 else 128 - first.has_failed_with
        return int(self._killed)

    async def _until_started(self, first: Post) -> None:
        """The others start when one has: what is wrong with the configuration is then said once."""
        while not (first.has_spoken or self._stopping):
            self._changed.clear()
            await self._changed.wait()

    async def _renew_when_asked(self) -> None:
        while True:
            await self._renewal_wanted.wait()
            self._renewal_wanted.clear()
            _log.info("replacing %d workers, one after the other", len(self._posts))
            for post in self._posts:
                if not await post.renew():
                    if not self._stopping:
                        _log.error("the workers that are left to replace stay")
                    break
            else:
                _log.info("all workers are replaced")

    def _on_change(self) -> None:
        if self._posts[0].has_failed_with is not None and not self._stopping:
            self.stop()
        self._changed.set()
        self._appoint()

    def _appoint(self) -> None:
        """Workers accept when they are ready. Where none is, one does all the same: somebody must say so to clients."""
        able = [p.holder for p in self._posts if p.holder is not None and p.holder.state in ("waiting", "serving")]
        if able and not any(worker.report.accepting or worker.may_accept for worker in able):
            able[0].accept()
