"""Workers are asked all at once, and one that does not answer costs no more than the time for it."""

from __future__ import annotations

import asyncio

from gateway.workers.worker_pages import Question, WorkerPages
from tests.fakes.waiting import eventually
from tests.gateway.workers.births import births, running_crew


async def test_each_answers_for_itself_on_both_ports() -> None:
    """With method, headers and body as they were given."""
    question = Question("/echo?x=1", "POST", {"x-mine": "y"}, b"body")
    with births() as born:
        async with running_crew(2, born) as crew:
            await eventually(lambda: crew.states()["serving"] == 2)
            answers = await WorkerPages(20).ask_all(crew.workers, question)
            pages = [answer.json() for answer in answers.values() if answer is not None]
            (metrics,) = (
                await WorkerPages(20).ask_all(crew.workers[:1], Question("/metrics", port="metrics"))
            ).values()

            assert [page["pid"] for page in pages] == [worker.pid for worker in crew.workers]
            assert {(page["method"], page["path"], page["query"], page["body"]) for page in pages} == {
                ("POST", "/echo", "x=1", "body")
            }
            assert all(page["headers"]["x-mine"] == "y" for page in pages)
            assert metrics is not None
            assert "prefixway_replica_up" in metrics.text


async def test_one_that_hangs_is_left_out() -> None:
    """The others' answers are there."""
    with births() as born:
        async with running_crew(2, born) as crew:
            await eventually(lambda: crew.states()["serving"] == 2)
            _, writer = await asyncio.open_connection("127.0.0.1", born.port)
            writer.write(b"stall\n")
            pages = WorkerPages(0.5)

            async def left_out() -> list[int]:
                answers = await pages.ask_all(crew.workers, Question("/status"))
                return [worker.pid for worker, answer in answers.items() if answer is None]

            while not (silent := await left_out()):
                pass
            assert len(silent) == 1
            for worker in crew.workers:
                if worker.pid in silent:
                    worker.kill()
            writer.close()


async def test_one_that_died_gives_no_answer() -> None:
    """Asked by name all the same."""
    with births() as born:
        async with running_crew(1, born) as crew:
            await eventually(lambda: crew.states()["serving"] == 1)
            (worker,) = crew.workers
            worker.kill()
            await eventually(lambda: not worker.is_alive)

            assert await WorkerPages(1).ask(worker, Question("/status")) is None
            assert await WorkerPages(1).ask_all([worker], Question("/status")) == {}
