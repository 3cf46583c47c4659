"""CrewListener: who wants to know what becomes of workers."""

from __future__ import annotations

from typing import Protocol

from gateway.workers.worker_process import WorkerProcess


class CrewListener(Protocol):
    """Told in this order; ``drained`` only of a worker that leaves as planned."""

    def joined(self, worker: WorkerProcess) -> None:
        """It was started."""

    async def drained(self, worker: WorkerProcess) -> None:
        """It leaves as planned, and has no answers left to give; its side sockets still answer."""

    def left(self, worker: WorkerProcess) -> None:
        """It is no more."""
