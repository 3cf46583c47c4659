"""The supervisor: one set of ports, whoever works behind them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.asgi_server import listen_socket, port_of
from gateway.settings import Settings
from gateway.workers.supervisor import Supervisor, limits_of
from tests.fakes.waiting import eventually
from tests.fakes.worker_program import COMMAND
from tests.gateway.workers.births import LIMITS

GIVEN = {
    **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
    "PREFIXWAY_WORKERS": "2",
    "PREFIXWAY_REDIS_URL": "redis://127.0.0.1:1",
}


@asynccontextmanager
async def supervising(**environ: str) -> AsyncIterator[tuple[Supervisor, asyncio.Task[int]]]:
    supervisor = Supervisor(Settings.from_env(GIVEN), {**os.environ, **environ}, command=COMMAND, limits=LIMITS)
    running = asyncio.ensure_future(supervisor.run())
    try:
        yield supervisor, running
    finally:
        if not running.done():
            supervisor.stop()
        await running


async def test_its_ports_answer_for_its_workers() -> None:
    """From its start to its end, on addresses that do not change when workers do."""
    async with supervising() as (supervisor, running), httpx.AsyncClient(trust_env=False) as client:
        metrics, admin = (f"http://127.0.0.1:{port.port}" for port in (supervisor.metrics, supervisor.admin))
        assert (await client.get(f"{metrics}/livez")).status_code == 200
        await eventually(lambda: supervisor.crew.states()["serving"] == 2)
        assert (await client.get(f"{metrics}/readyz")).status_code == 200
        supervisor.renew()
        await eventually(lambda: supervisor.crew.tally.replacements == 2)
        assert "prefixway_worker_replacements_total 2.0" in (await client.get(f"{metrics}/metrics")).text
        assert len((await client.get(f"{admin}/status")).json()["workers"]) >= 2
        supervisor.stop()
        assert await running == 0


async def test_sockets_of_workers_lie_in_a_folder_that_only_its_user_may_enter() -> None:
    """And the folder is gone afterwards."""
    async with supervising() as (supervisor, _):
        await eventually(lambda: supervisor.crew.workers)
        folder = Path(supervisor.crew.workers[0].metrics_path).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    assert not folder.exists()


async def test_after_a_stop_the_port_is_free() -> None:
    """The next one may have it."""
    async with supervising() as (supervisor, running):
        port = int(supervisor.url.rpartition(":")[2])
        await eventually(lambda: supervisor.crew.states()["serving"] == 2)
        supervisor.stop()
        await running
        listen_socket("127.0.0.1", port).close()


async def test_a_worker_that_cannot_start_ends_it() -> None:
    """With that worker's status."""
    async with supervising(WORKER_EXITS="4") as (_, running):
        assert await running == 4


async def test_a_port_that_is_taken_is_named() -> None:
    """Before any worker is started, and nothing stays bound."""
    with listen_socket("127.0.0.1", 0) as taken:
        given = GIVEN | {"PREFIXWAY_ADMIN_LISTEN": f"127.0.0.1:{port_of(taken)}"}
        with pytest.raises(OSError, match=r"cannot listen on 127.0.0.1:.*: Address already in use"):
            Supervisor(Settings.from_env(given), {}, command=COMMAND)


def test_a_worker_has_the_drain_time_twice() -> None:
    """Once for idle clients to go over to others, once for its answers; then it is ended."""
    settings = Settings.from_env(GIVEN | {"PREFIXWAY_DRAIN_S": "30"})

    assert limits_of(settings).leave_s > 60
