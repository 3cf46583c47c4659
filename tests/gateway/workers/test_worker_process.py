"""A worker from its birth to its end, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gateway.workers.worker_process import WorkerProcess
from tests.fakes.waiting import eventually
from tests.gateway.workers.births import Births, Listener, births


@asynccontextmanager
async def watched(born: Births, *, start_s: float = 20, silent_s: float = 20) -> AsyncIterator[WorkerProcess]:
    """A worker that is watched until it ends, at the latest at the end of the block."""
    worker = await born.start(1)
    listener = Listener()
    watching = asyncio.ensure_future(worker.watch(lambda: None, listener.drained, start_s=start_s, silent_s=silent_s))
    try:
        yield worker
    finally:
        worker.kill()
        await watching


async def test_it_is_born_with_its_sockets_and_tells_how_it_is() -> None:
    """It answers on the public socket and on both of its own, which only its user may use."""
    with births() as born:
        async with watched(born) as worker:
            assert (worker.state, worker.slot) == ("starting", 1)
            await eventually(lambda: worker.state == "serving")
            assert await born.ask() == worker.pid
            for path, page in ((worker.metrics_path, "/metrics"), (worker.admin_path, "/status")):
                transport = httpx.AsyncHTTPTransport(uds=path)
                async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
                    assert (await client.get(page)).status_code == 200
        assert worker.status == -signal.SIGKILL
        assert not os.path.exists(worker.metrics_path)


async def test_it_waits_until_it_is_ready_or_told_to_accept() -> None:
    """Connections stay in the socket's queue meanwhile."""
    with births() as born:
        born.ready.unlink()
        async with watched(born) as worker:
            await eventually(lambda: worker.state == "waiting")
            asking = asyncio.ensure_future(born.ask())
            worker.accept()
            assert await asking == worker.pid
            assert not worker.report.ready


async def test_it_leaves_when_its_clients_have() -> None:
    """Told to retire, it lets a connection come to its end; status 0."""
    with births() as born:
        async with watched(born) as worker:
            _, _, writer = await born.hold()
            await eventually(lambda: worker.report.connections == 1)
            worker.leave("retire", 20)
            assert worker.state == "leaving"
            writer.write(b"hold\n")
            await writer.drain()
            assert worker.is_alive
            writer.close()
            await eventually(lambda: not worker.is_alive)
            assert worker.status == 0


async def test_one_that_does_not_leave_in_time_is_killed() -> None:
    """Its client holds on for too long."""
    with births() as born:
        async with watched(born) as worker:
            _, _, writer = await born.hold()
            worker.leave("stop", 0.05)
            await eventually(lambda: not worker.is_alive)
            writer.close()

    assert worker.status == -signal.SIGKILL


async def test_one_whose_loop_hangs_is_killed() -> None:
    """It says nothing any more."""
    with births() as born:
        async with watched(born, silent_s=1.5) as worker:
            await eventually(lambda: worker.state == "serving")
            _, writer = await asyncio.open_connection("127.0.0.1", born.port)
            writer.write(b"stall\n")
            await eventually(lambda: not worker.is_alive)
            writer.close()

    assert worker.status == -signal.SIGKILL


async def test_a_supervisor_that_slept_does_not_blame_its_workers() -> None:
    """What they said meanwhile is read first."""
    with births() as born:
        async with watched(born, silent_s=1.5) as worker:
            await eventually(lambda: worker.state == "serving")
            time.sleep(2)  # noqa: ASYNC251 - what a process that is stopped and goes on does
            connection = await born.hold()
            await eventually(lambda: worker.report.connections == 1)
            assert worker.is_alive
            connection[2].close()


async def test_one_that_never_speaks_is_killed() -> None:
    """A program that starts and does nothing."""
    with births() as born:
        born.birthplace = replace(born.birthplace, command=("sleep", "60", "#"))
        async with watched(born, start_s=0.05) as worker:
            await eventually(lambda: not worker.is_alive)


async def test_what_cannot_be_started_says_so() -> None:
    """A command that is not there, and a folder whose name is too long for a socket; nothing is left open."""
    with births() as born:
        for broken in (
            replace(born.birthplace, command=("/nowhere/to/be/found",)),
            replace(born.birthplace, folder=Path("/tmp") / ("x" * 120)),
        ):
            born.birthplace = broken
            with pytest.raises(OSError, match=r"No such file|too long"):
                await born.start(1)
