"""Probes and the load that a replica reports: of requests that others sent there, nobody else tells."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fakes.scripted_server import Script, ScriptedServer, Wire, answer
from tests.fakes.waiting import eventually
from tests.gateway.examples import Clock
from tests.gateway.fleet.probing import pool_of, probing


@pytest.mark.parametrize(("running", "waiting"), [("1e300", "0"), ("1e308", "1e308"), ("10", "-5")])
async def test_a_load_that_cannot_be_is_not_believed(
    running: str, waiting: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The replica answers /health, so it is healthy, and is probed on."""
    async with ScriptedServer(_loaded(lambda: (running, waiting))) as engine:
        pool = pool_of(engine.origin.url)
        (server,) = pool.servers
        async with probing(pool):
            await eventually(lambda: server.healthy and len(engine.requests) > 10)

    assert server.replicas[0].strangers is None
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_strangers_are_forgotten_when_reports_stop() -> None:
    """One page that is missed is nothing; after some seconds without any, nobody knows who is there."""
    told: list[tuple[str, str] | None] = [("4", "3")]
    clock = Clock()
    async with ScriptedServer(_loaded(lambda: told[0])) as engine:
        pool = pool_of(engine.origin.url)
        (server,) = pool.servers
        async with probing(pool, clock=clock):
            await eventually(lambda: server.replicas and server.replicas[0].strangers)
            told[0] = None
            count = len(engine.requests)
            await eventually(lambda: len(engine.requests) > count + 10)
            (replica,) = server.replicas
            missed = replica.strangers
            clock.now += 11.0
            await eventually(lambda: replica.strangers is None)

    assert missed == (4, 3.0)
    assert server.healthy


async def test_a_server_that_strangers_use_tells_its_load_more_often() -> None:
    """Nobody else tells of their requests. Else it is asked once in a round, and its other pages are in any case."""
    told = ["0"]
    async with ScriptedServer(_loaded(lambda: (told[0], "0"))) as engine:
        pool = pool_of(engine.origin.url)
        (server,) = pool.servers

        def rounds_and_reports() -> tuple[int, int]:
            pages = Counter(request.line.split(b" ")[1] for request in engine.requests)
            return pages[b"/health"], pages[b"/metrics"]

        async with probing(pool, interval_s=1.0, clock=Clock()):
            await eventually(lambda: rounds_and_reports()[0] >= 3)
            rounds, reports = rounds_and_reports()
            quiet = reports - rounds
            told[0] = "5"
            await eventually(lambda: server.has_strangers and rounds_and_reports()[1] >= reports + 9)
            busy_rounds, told[0] = rounds_and_reports()[0], "2"
            await eventually(lambda: server.replicas[0].strangers == (2, 0))

    assert quiet <= 0
    assert busy_rounds <= rounds + 5


def _loaded(load: Callable[[], tuple[str, str] | None]) -> Script:
    """Well, with so many running and waiting; ``None``: /metrics is not there."""

    async def pages(wire: Wire) -> None:
        page = wire.request.line.split(b" ")[1]
        if page == b"/v1/models":
            await wire.send(answer(b'{"data": [{"id": "m"}]}'))
        elif page != b"/metrics":
            await wire.send(answer(b"{}"))
        elif (told := load()) is None:
            await wire.send(answer(b"", status="404 Not Found"))
        else:
            running, waiting = told
            text = f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
            await wire.send(answer(text.encode()))

    return pages
