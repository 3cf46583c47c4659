"""Where the workers of a test are born: real processes that answer lines, on a socket of the test's own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

from gateway.asgi_server import listen_socket, port_of
from gateway.workers.crew import Crew
from gateway.workers.limits import Limits
from gateway.workers.worker_process import Birthplace, WorkerProcess
from tests.fakes.worker_program import COMMAND

LIMITS = Limits(leave_s=10, ready_s=10, young_s=0, first_pause_s=0.01)


class Births:
    """``birthplace`` for real workers. ``ready`` is the file that makes them so; it is there at first."""

    def __init__(self, birthplace: Birthplace, ready: Path) -> None:
        self.birthplace = birthplace
        self.ready = ready
        self.port = port_of(birthplace.public)
        self._names = map(str, count(1))

    async def start(self, slot: int) -> WorkerProcess:
        return await WorkerProcess.start(slot, next(self._names), self.birthplace)

    async def ask(self, line: str = "") -> int:
        """The pid of the worker that answers it, on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"{line or 'pid'}\n".encode())
        answer = await asyncio.wait_for(reader.readline(), 20)
        writer.close()
        return int(answer)

    async def hold(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that stays, and the pid of the worker that has it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"hold\n")
        return int(await asyncio.wait_for(reader.readline(), 20)), reader, writer


@contextmanager
def births(**environ: str) -> Iterator[Births]:
    """``environ``: for the workers, beside the test's own."""
    with tempfile.TemporaryDirectory() as name, listen_socket("127.0.0.1", 0) as public:
        ready = Path(name) / "ready"
        ready.touch()
        given = {**os.environ, "WORKER_IS_READY": str(ready), **environ}
        yield Births(Birthplace(COMMAND, given, public, Path(name)), ready)


class Listener:
    """Remembers what it is told of workers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def joined(self, worker: WorkerProcess) -> None:
        self.told.append(("joined", worker.pid))

    async def drained(self, worker: WorkerProcess) -> None:
        self.told.append(("drained", worker.pid))

    def left(self, worker: WorkerProcess) -> None:
        self.told.append(("left", worker.pid))


@asynccontextmanager
async def running_crew(
    size: int, born: Births, *, limits: Limits = LIMITS, listener: Listener | None = None
) -> AsyncIterator[Crew]:
    """It is stopped at the end of the block, unless it was before."""
    crew = Crew(size, born.start, limits=limits, listener=listener or Listener())
    running = asyncio.ensure_future(crew.run())
    try:
        yield crew
    finally:
        if not running.done():
            crew.stop()
        await running
