"""The whole replica: its cues, its death and its return."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.fakes.raw_client import RawClient, post
from tests.fakes.waiting import eventually
from tests.loadtest.replica.running import NO_TIME, chat, running

LONG = chat("turtle " * 50)


async def test_remembers_what_it_received() -> None:
    """Body bytes as they were sent, in order of arrival."""
    body = b'{ "prompt":"x", "unknown": 12345678901234567890, "max_tokens": 1}'
    async with running() as (replica, client):
        await client.post("/v1/completions", content=body)
        await client.get("/health")

    assert [request.path for request in replica.requests] == ["/v1/completions", "/health"]
    assert replica.requests[0].body == body


async def test_a_restart_is_a_new_process_on_the_same_ports() -> None:
    """Empty cache, sequence 0, counters at 0, a later start time; open connections are reset."""
    async with running() as (replica, client):
        await client.post("/v1/chat/completions", json=LONG)
        before = replica.start_time_s, replica.url, replica.publisher.endpoint, replica.publisher.replay_endpoint
        async with RawClient(replica.http.port) as raw:
            await raw.send(post(b"{}", path="/health"))
            await replica.restart()

        assert (replica.url, replica.publisher.endpoint, replica.publisher.replay_endpoint) == before[1:]
        assert replica.start_time_s > before[0]
        assert not replica.cache.resident_prefixes()
        assert replica.publisher.next_sequence == replica.scheduler.stats.prompt_tokens == 0
        again = (await client.post("/v1/chat/completions", json=LONG)).json()
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert replica.publisher.next_sequence > 0


async def test_refuses_connections_until_it_accepts_again() -> None:
    """Its cache lives on meanwhile."""
    async with running() as (replica, client):
        await client.post("/v1/chat/completions", json=LONG)
        await replica.refuse()
        with pytest.raises(httpx.ConnectError):
            await client.get("/health")
        await replica.accept()
        answer = (await client.post("/v1/chat/completions", json=LONG)).json()

    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


async def test_takes_cues_over_http() -> None:
    """Faults, dropped frames and slowness, and back to normal."""
    async with running() as (replica, client):
        await client.post("/_sim/faults", json={"fault": {"status": 503}, "times": 1, "slowdown": 3})
        refused = await client.post("/v1/completions", json={"prompt": "x"})
        await client.post("/_sim/faults", json={"fault": {"status": 500}, "health_status": 500, "split_bytes": 7})
        sick = await client.get("/health")
        await client.post("/_sim/faults", json={"clear": True, "drop_frames": 1})
        served = await client.post("/v1/completions", json={"prompt": "x"})

        assert [answer.status_code for answer in (refused, sick, served)] == [503, 500, 200]
        assert replica.scheduler.slowdown == 3
        assert replica.faults.split_bytes == 0


async def test_restarts_and_refuses_on_an_http_cue() -> None:
    """After it has answered the cue, so that whoever asked knows."""
    async with running() as (replica, client):
        started = replica.start_time_s
        assert (await client.post("/_sim/faults", json={"restart": True})).status_code == 200
        await eventually(lambda: replica.start_time_s > started and replica.http.is_listening)
        assert (await client.post("/_sim/faults", json={"refuse_for_s": 0.05})).status_code == 200
        await eventually(lambda: not replica.http.is_listening)
        await eventually(lambda: replica.http.is_listening)
        assert (await client.get("/health")).status_code == 200


async def test_stops_while_it_is_busy() -> None:
    """Streams, stalls and errands end with it: no task and no socket is left."""
    replica = SimulatedReplica(ReplicaOptions(speeds=NO_TIME))
    await replica.start()
    async with RawClient(replica.http.port) as streaming, RawClient(replica.http.port) as stalled:
        await streaming.send(post(b'{"prompt": "x", "stream": true, "ignore_eos": true, "max_tokens": 9999}'))
        await streaming.read_until(b"data: ")
        await replica.cue({"fault": {"stall_before_head": True}, "refuse_for_s": 60})
        await stalled.send(post(b'{"prompt": "x"}'))
        await eventually(lambda: replica.faults.stalled == 1)

        await replica.stop()

        assert replica.http.connections == 0
    assert len(asyncio.all_tasks()) == 1


async def test_a_taken_port_is_an_error_and_leaves_nothing_open() -> None:
    """As a server that cannot start."""
    async with running() as (replica, _):
        with pytest.raises(OSError, match="in use"):
            await SimulatedReplica(ReplicaOptions(port=replica.http.port)).start()

    assert len(asyncio.all_tasks()) == 1


async def test_is_a_process_too() -> None:
    """``python -m loadtest replica`` prints where it listens, and ends on SIGTERM."""
    import sys

    ports = ["--port", "0", "--events", "tcp://127.0.0.1:0", "--replay", "tcp://127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadtest", "replica", *ports, "--model", "m", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url, events, _, replay, _ = (await asyncio.wait_for(process.stdout.readline(), 120)).decode().split()[:5]
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        models = (await client.get("/v1/models")).json()
    process.terminate()

    assert (models["data"][0]["id"], events, replay) == ("m", "events", "replay")
    assert await asyncio.wait_for(process.wait(), 120) == 0
