"""The metrics port speaks for all workers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client.parser import text_string_to_metric_families

from gateway.workers.crew import Crew
from gateway.workers.crew_metrics import CrewMetrics, WorkerCounters
from gateway.workers.worker_pages import WorkerPages
from tests.fakes.waiting import eventually
from tests.gateway.observe.asking import ask
from tests.gateway.workers.births import LIMITS, Births, births


@asynccontextmanager
async def measured_crew(size: int, born: Births) -> AsyncIterator[tuple[Crew, CrewMetrics]]:
    counters = WorkerCounters(WorkerPages(1.0))
    crew = Crew(size, born.start, limits=LIMITS, listener=counters)
    running = asyncio.ensure_future(crew.run())
    await eventually(lambda: crew.states()["serving"] == size)
    yield crew, CrewMetrics(crew, counters)
    crew.stop()
    await running


async def values(app: CrewMetrics) -> dict[str, float]:
    page = await ask(app, "/metrics")
    assert page.status == 200
    return {
        sample.name + "".join(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.body)
        for sample in family.samples
    }


async def test_sums_and_states() -> None:
    """What clients sent to whichever worker; gauges of a replica are not doubled."""
    with births() as born:
        async with measured_crew(2, born) as (_, app):
            for _ in range(10):
                await born.ask("count")
            told = await values(app)

    assert told["prefixway_requests_total"] == 10
    assert told["prefixway_replica_upone"] == 1
    assert (told["prefixway_workersserving"], told["prefixway_workersleaving"]) == (2, 0)
    assert told["prefixway_workers_answered"] == 2


async def test_over_a_death_as_last_seen_and_over_a_renewal_exactly() -> None:
    """Before a worker leaves as planned it is read once more."""
    with births() as born:
        async with measured_crew(2, born) as (crew, app):
            for _ in range(10):
                await born.ask("count")
            assert (await values(app))["prefixway_requests_total"] == 10
            os.kill(crew.workers[0].pid, signal.SIGKILL)
            await eventually(lambda: crew.tally.deaths == 1)
            told = await values(app)
            assert (told["prefixway_requests_total"], told["prefixway_worker_deaths_total"]) == (10, 1)
            await eventually(lambda: crew.states()["serving"] == 2)
            for _ in range(5):
                await born.ask("count")
            crew.renew()
            await eventually(lambda: crew.tally.replacements == 2 and len(crew.workers) == 2)
            told = await values(app)
            assert (told["prefixway_requests_total"], told["prefixway_worker_replacements_total"]) == (15, 2)


async def test_a_worker_that_hangs_is_left_out_of_the_gauges() -> None:
    """Its counters stay as last seen, and the page says that one did not answer."""
    with births() as born:
        async with measured_crew(2, born) as (crew, app):
            await born.ask("count")
            await values(app)
            _, writer = await asyncio.open_connection("127.0.0.1", born.port)
            writer.write(b"stall\n")
            while (told := await values(app))["prefixway_workers_answered"] == 2:
                pass
            assert told["prefixway_requests_total"] == 1
            assert told["prefixway_replica_upone"] == 1
            for worker in crew.workers:
                worker.kill()
            writer.close()


async def test_health_is_that_of_all() -> None:
    """Alive by itself; ready if any worker is."""
    with births() as born:
        async with measured_crew(2, born) as (crew, app):
            assert (await ask(app, "/livez")).status == (await ask(app, "/readyz")).status == 200
            born.ready.unlink()
            await eventually(lambda: not crew.is_ready)
            assert ((await ask(app, "/livez")).status, (await ask(app, "/readyz")).status) == (200, 503)
            assert (await ask(app, "/nothing")).status == 404
