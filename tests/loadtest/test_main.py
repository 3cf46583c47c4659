"""``python -m loadtest``, as containers run it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import httpx
import pytest

from loadtest.__main__ import main
from tests.fakes.scripted_server import closed_port
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import running


async def started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadtest", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


async def test_a_replica_that_others_reach_says_where_as_vllm_does() -> None:
    """Bound to every address it repeats the ``*`` of its endpoints: who asks knows its host. SIGTERM ends it well."""
    port, events, replay = closed_port(), f"tcp://*:{closed_port()}", f"tcp://*:{closed_port()}"
    place = ("--host", "0.0.0.0", "--port", str(port))
    process = await started("replica", *place, "--events", events, "--replay", replay)
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()
    async with httpx.AsyncClient(trust_env=False) as client:
        sources = (await client.get(f"http://127.0.0.1:{port}/kv_event_sources")).json()
    process.send_signal(signal.SIGTERM)
    rest, _ = await process.communicate()

    assert said == f"http://0.0.0.0:{port} events {events} replay {replay}\n"
    assert (sources["0"]["endpoint"], sources["0"]["replay_endpoint"]) == (events, replay)
    assert (process.returncode, rest) == (0, b"")


async def test_a_load_goes_on_until_it_is_stopped() -> None:
    """Round after round of new conversations, each reported; to every server that it was given."""
    async with running() as (first, _), running() as (second, _):
        process = await started("load", first.url, second.url, "--dialogues", "4", "--turns", "1", "--rounds", "0")
        assert process.stdout is not None
        lines = [(await process.stdout.readline()).decode() for _ in range(6)]
        await eventually(lambda: first.requests and second.requests)
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        bodies = {request.body for replica in (first, second) for request in replica.requests}

    assert [line for line in lines if "answered" in line] == ["4 answered, 0 not\n"] * 2
    assert len(bodies) >= 8  # the second round is no repetition of the first
    assert process.returncode == 0


async def test_as_many_rounds_as_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """And then it ends by itself."""
    async with running() as (replica, _):
        arguments = ["load", replica.url, "--dialogues", "2", "--turns", "1", "--rounds", "2"]
        await asyncio.to_thread(main, arguments)

    assert capsys.readouterr().out.count("2 answered, 0 not") == 2
