"""When parts are missing or break: clear answers, or routing with what is known. Never a hang, never an exit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from loadtest.replica import Fault, ReplicaOptions
from tests.end_to_end.house import FAST, house
from tests.fakes.waiting import eventually


async def test_no_replica_configured(strategy: str) -> None:
    """503 of OpenAI's shape with the reason and Retry-After; not ready, alive."""
    async with house([], strategy=strategy) as home:
        answer = await home.chat("x")
        pages = {
            page: (await home.client.get(page)).status_code for page in ("/livez", "/readyz", "/health", "/v1/models")
        }

    assert answer.status_code == 503
    assert "No replica is configured" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) > 0
    assert pages == {"/livez": 200, "/readyz": 503, "/health": 503, "/v1/models": 503}


async def test_all_replicas_down(strategy: str) -> None:
    """503 with what is wrong with them; ready again is not needed, they were; back up, requests pass."""
    async with house(["a", "b"], strategy=strategy) as home:
        for replica in home.replicas.values():
            await replica.refuse()
        await eventually(lambda: not any(server.healthy for server in home.gateway.pool.servers))
        answer = await home.chat("x")
        ready = await home.client.get("/readyz")
        for replica in home.replicas.values():
            await replica.accept()
        await eventually(lambda: all(server.healthy for server in home.gateway.pool.servers))
        again = await home.chat("x")

    assert answer.status_code == 503
    assert "a: /health: ConnectError" in answer.json()["error"]["message"]
    assert answer.headers["retry-after"]
    assert ready.status_code == 200
    assert again.status_code == 200


async def test_a_replica_that_refuses_costs_no_request(strategy: str) -> None:
    """Connections refused before probes know: every request is answered by the others."""
    async with house(["a", "b", "c"], strategy=strategy, probe_interval_s="60") as home:
        await home.replicas["b"].refuse()
        answers = [await home.chat(f"hello {number}", max_tokens=1) for number in range(30)]

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-prefixway-replica"] for answer in answers} <= {"a", "c"}


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_error_answer_is_tried_elsewhere_once(strategy: str, status: int) -> None:
    """One replica that always pushes back or fails: clients see none of it while another is fine."""
    async with house(["a", "b"], strategy=strategy) as home:
        home.replicas["a"].faults.always = Fault(status=status)
        answers = [await home.chat(f"hello {number}", max_tokens=1) for number in range(10)]

    assert {answer.status_code for answer in answers} == {200}


async def test_when_all_push_back_the_last_answer_passes(strategy: str) -> None:
    """With its Retry-After."""
    async with house(["a", "b"], strategy=strategy) as home:
        for replica in home.replicas.values():
            replica.faults.always = Fault(status=429, retry_after_s=7)
        answer = await home.chat("x")

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_dying_before_the_first_body_byte_is_tried_elsewhere(strategy: str) -> None:
    """Head sent, then nothing: the client sees one clean stream from the other replica."""
    async with house(["a", "b"], strategy=strategy) as home:
        home.replicas["a"].faults.always = Fault(die_after_chunks=0)
        answers = [await home.chat(f"hello {n}", max_tokens=2, stream=True) for n in range(8)]

    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)


async def test_dying_midway_ends_with_one_error_event(strategy: str) -> None:
    """Three chunks, then gone: what came passes, then one well-formed error event and no made-up finish."""
    async with house(["a"], strategy=strategy) as home:
        home.replicas["a"].faults.add(Fault(die_after_chunks=3))
        answer = await home.chat("hello", max_tokens=9, stream=True)
        events = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]

    assert "[DONE]" not in events
    assert len(events) == 4
    assert json.loads(events[-1])["error"]["message"]
    assert all("error" not in json.loads(event) for event in events[:-1])


async def test_a_client_that_leaves_frees_everything(strategy: str) -> None:
    """Disconnecting before the first byte stops the generation and closes the books, once."""
    async with house(["a"], strategy=strategy) as home:
        replica = home.replicas["a"]
        replica.faults.always = Fault(stall_before_head=True)
        task = asyncio.ensure_future(home.chat("hello"))
        await eventually(lambda: home.served()["a"] == 1)
        task.cancel()
        workload = next(iter(home.gateway.pool.replicas)).workload
        await eventually(lambda: workload.inflight == 0)
        replica.faults.clear()

        assert (await home.chat("again", max_tokens=1)).status_code == 200
        assert next(iter(home.gateway.pool.servers)).breaker.is_closed


async def test_a_dead_event_port_leaves_routing_by_what_was_sent() -> None:
    """No event arrives: follow-ups still go where their prefix was sent, and the state says blind."""
    options = ReplicaOptions(speeds=FAST, lists_event_sources=False)
    async with house(["a", "b"], options, kv_events="tcp://{host}:9,replay=tcp://{host}:19") as home:
        long = "tell me about the sea " * 60
        first = await home.chat(long, max_tokens=1)
        answers = [await home.chat(f"{long}{number}", max_tokens=1) for number in range(10)]
        page = await home.client.get(f"http://127.0.0.1:{home.gateway.admin.port}/replicas")

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-prefixway-replica"] for answer in answers} == {first.headers["x-prefixway-replica"]}
    assert [replica["events"]["state"] for replica in page.json()] == ["blind", "blind"]


async def test_a_missing_tokenizer_asks_a_replica_and_says_so(tmp_path: Path) -> None:
    """The named folder is empty: a replica tokenizes, and the receipt tells that it did."""
    async with house(["a"], tokenizer=str(tmp_path)) as home:
        answer = await home.chat("hello", max_tokens=1)

    assert answer.status_code == 200
    assert answer.headers["x-prefixway-reason"] == "only_candidate, remote_tokenize"
    assert (
        int(answer.headers["x-prefixway-matched"].split(",")[0].removeprefix("prompt="))
        == (answer.json()["usage"]["prompt_tokens"])
    )


async def test_a_reloaded_file_changes_the_fleet_and_keeps_streams(tmp_path: Path) -> None:
    """A replica added to the file serves; one taken out gets nothing new, and its running stream ends in full."""
    path = tmp_path / "replicas.yaml"
    async with house(["a", "b"]) as spare:
        urls = {id_: replica.url for id_, replica in spare.replicas.items()}
        path.write_text(f"- a={urls['a']}\n")
        async with house([], replicas_file=str(path)) as home:
            await eventually(lambda: home.gateway.pool.was_ready)
            await home.gateway.until_complete()
            stalled = spare.replicas["a"].faults
            stalled.add(Fault(stall_after_chunks=1))
            async with home.client.stream(
                "POST",
                "/v1/completions",
                json={"model": "simulated", "prompt": "x", "max_tokens": 5, "stream": True},
            ) as stream:
                chunks = stream.aiter_text()
                text = await anext(chunks)
                path.write_text(f"- b={urls['b']}\n")
                await eventually(lambda: stalled.stalled and [s.id for s in home.gateway.pool.servers] == ["b"])
                await home.gateway.until_complete()
                answers = [await home.complete("y", max_tokens=1) for _ in range(3)]
                stalled.release()
                async for chunk in chunks:
                    text += chunk

    assert {answer.headers["x-prefixway-replica"] for answer in answers} == {"b"}
    assert text.endswith("data: [DONE]\n\n")


async def test_draining_finishes_what_runs() -> None:
    """Asked to stop with a stream open: not ready at once, the stream ends in full, then the gateway is gone."""
    async with house(["a"]) as home:
        faults = home.replicas["a"].faults
        faults.add(Fault(stall_after_chunks=1))
        body = {"model": "simulated", "prompt": "x", "max_tokens": 5, "stream": True}
        async with home.client.stream("POST", "/v1/completions", json=body) as stream:
            chunks = stream.aiter_text()
            text = await anext(chunks)
            home.gateway.stop()
            await eventually(lambda: faults.stalled and not home.gateway.is_ready())
            faults.release()
            async for chunk in chunks:
                text += chunk
        await eventually(lambda: home.gateway.stopped)
        with pytest.raises(httpx.ConnectError):
            await home.client.get("/livez")

    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_what_outlasts_the_drain_is_told(stream: bool) -> None:
    """A stream that does not end in time ends with one error event, a plain answer with 503: not with a silent cut."""
    async with house(["a"], drain_s="1") as home:
        faults = home.replicas["a"].faults
        faults.add(Fault(stall_after_chunks=1) if stream else Fault(stall_before_head=True))
        running = asyncio.ensure_future(home.complete("x", max_tokens=5, stream=stream))
        await eventually(lambda: faults.stalled)
        home.gateway.stop()
        answer = await running
        await eventually(lambda: home.gateway.stopped)

    assert json.loads(answer.text.strip().rpartition("data: ")[2])["error"]["code"] == "stopping"
    assert answer.status_code == (200 if stream else 503)
