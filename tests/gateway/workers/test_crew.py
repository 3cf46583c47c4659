"""Several workers: who accepts, how they are replaced, how they end."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

from gateway.workers.crew import Crew
from gateway.workers.worker_process import WorkerProcess
from tests.fakes.waiting import eventually
from tests.gateway.workers.births import LIMITS, Listener, births, running_crew


def serving(crew: Crew) -> list[WorkerProcess]:
    return [worker for worker in crew.workers if worker.state == "serving"]


async def test_all_serve_and_leave_together() -> None:
    """Status 0: what was asked for was done."""
    with births() as born:
        crew = Crew(3, born.start, limits=LIMITS, listener=Listener())
        running = asyncio.ensure_future(crew.run())
        await eventually(lambda: len(serving(crew)) == 3)
        assert crew.is_ready
        assert crew.states() == {"starting": 0, "waiting": 0, "serving": 3, "leaving": 0}
        assert [worker.slot for worker in crew.workers] == [1, 2, 3]
        crew.stop()
        assert await running == 0
        assert (crew.is_ready, len(crew.workers)) == (False, 0)


async def test_a_first_worker_that_cannot_start_ends_it_with_its_status() -> None:
    """One worker says what is wrong, not four, and there is no second try."""
    listener = Listener()
    with births(WORKER_EXITS="3") as born:
        status = await Crew(4, born.start, limits=LIMITS, listener=listener).run()

    assert status == 3
    assert len(listener.told) == 2


async def test_where_none_is_ready_one_accepts() -> None:
    """Clients are told so, rather than kept waiting; when others are ready they join in."""
    with births() as born:
        born.ready.unlink()
        async with running_crew(3, born) as crew:
            await eventually(lambda: crew.states()["waiting"] == 2 and crew.states()["serving"] == 1)
            assert not crew.is_ready
            first = await born.ask()
            assert {await born.ask() for _ in range(5)} == {first}
            os.kill(first, signal.SIGKILL)
            assert await born.ask() != first  # another is told to
            born.ready.touch()
            await eventually(lambda: len(serving(crew)) == 3)
            assert crew.is_ready


async def test_all_are_renewed_one_after_the_other() -> None:
    """At no time are fewer than before there to accept."""
    with births() as born:
        async with running_crew(2, born) as crew:
            await eventually(lambda: len(serving(crew)) == 2)
            before = {worker.pid for worker in crew.workers}
            crew.renew()
            asked = 0
            while crew.tally.replacements < 2 or len(crew.workers) > 2:
                assert await born.ask() > 0
                asked += 1
                assert len(crew.workers) <= 3
            assert not before & {worker.pid for worker in crew.workers}
            assert crew.tally.deaths == 0
            assert asked > 1


async def test_a_renewal_that_fails_leaves_the_rest_alone() -> None:
    """The first successor does not get ready: the second is not even tried; a later renewal may work."""
    with births() as born:
        async with running_crew(2, born, limits=replace(LIMITS, ready_s=0.8)) as crew:
            await eventually(lambda: len(serving(crew)) == 2)
            before = [worker.pid for worker in crew.workers]
            good = born.birthplace
            born.birthplace = replace(good, environ={**good.environ, "WORKER_IS_READY": "/nowhere/ready"})
            crew.renew()
            await eventually(lambda: len(crew.workers) == 3)
            await eventually(lambda: len(crew.workers) == 2)
            assert [worker.pid for worker in crew.workers] == before
            born.birthplace = replace(good, environ=good.environ)
            crew.renew()
            await eventually(lambda: crew.tally.replacements == 2)


async def test_stopped_twice_it_ends_at_once() -> None:
    """Whatever clients hold; the status tells that it was not as asked first."""
    with births() as born:
        crew = Crew(2, born.start, limits=LIMITS, listener=Listener())
        running = asyncio.ensure_future(crew.run())
        await eventually(lambda: len(serving(crew)) == 2)
        held = [await born.hold() for _ in range(4)]
        crew.stop()
        await eventually(lambda: crew.states()["leaving"] > 0)
        assert not running.done()
        crew.stop()
        assert await running == 1
        for _, reader, writer in held:
            assert await reader.read() == b""
            writer.close()


async def test_a_stop_is_heard_between_two_starts() -> None:
    """The workers that are still to start are not started."""
    listener = Listener()
    with births() as born:

        async def start(slot: int) -> WorkerProcess:
            if slot == 2:
                asyncio.get_running_loop().call_soon(crew.stop)
            return await born.start(slot)

        crew = Crew(20, start, limits=LIMITS, listener=listener)
        assert await crew.run() == 0

    joined = [word for word, _ in listener.told if word == "joined"]
    assert len(joined) < 5


async def test_stopped_before_it_began_it_starts_nothing_more() -> None:
    """A signal in the first moment."""
    with births() as born:
        crew = Crew(2, born.start, limits=LIMITS, listener=Listener())
        running = asyncio.ensure_future(crew.run())
        await eventually(lambda: crew.workers)
        crew.stop()
        assert await running == 0
        assert not crew.workers
