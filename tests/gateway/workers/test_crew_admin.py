"""The admin port speaks for all workers and passes orders on to every one."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.workers.crew import Crew
from gateway.workers.crew_admin import CrewAdmin, crew_admin_app
from gateway.workers.worker_pages import WorkerPages
from tests.fakes.waiting import eventually
from tests.gateway.workers.births import Births, births, running_crew


@asynccontextmanager
async def admin_of(born: Births, size: int = 2, token: str = "") -> AsyncIterator[tuple[Crew, httpx.AsyncClient]]:
    """The port of a crew that serves, without a socket: its answers come in one piece."""
    async with running_crew(size, born) as crew:
        await eventually(lambda: crew.states()["serving"] == size)
        admin = CrewAdmin(
            crew,
            WorkerPages(20),
            "workers' own",
            settings={"PREFIXWAY_X": "y"},
            unknown_settings=["PREFIXWAY_X is no setting"],
            clock=time.monotonic,
        )
        app = crew_admin_app(admin, token)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            yield crew, client


async def test_status_has_the_supervisor_every_worker_and_what_they_say_together() -> None:
    """Each with its pid, state and connections."""
    with births() as born:
        async with admin_of(born) as (crew, client):
            held = [await born.hold() for _ in range(3)]
            await eventually(lambda: sum(worker.report.connections for worker in crew.workers) == 3)
            status = (await client.get("/status")).json()
            replicas = (await client.get("/replicas")).json()
            for _, _, writer in held:
                writer.close()

        assert status["supervisor"]["workers"] == {"starting": 0, "waiting": 0, "serving": 2, "leaving": 0}
        assert status["supervisor"]["deaths"] == 0
        assert [worker["worker"] for worker in status["workers"]] == [1, 2]
        assert sum(worker["connections"] for worker in status["workers"]) == 3
        assert all(worker["status"]["strategy"] == "kv_aware" for worker in status["workers"])
        assert (status["ready"], status["strategy"]) == (True, "kv_aware")
        assert status["settings"] == {"PREFIXWAY_X": "y"}
        assert status["unknown_settings"] == ["PREFIXWAY_X is no setting"]
        assert status["replicas"] == replicas
        assert (replicas[0]["id"], replicas[0]["inflight"]) == ("one", 3)


async def test_an_order_goes_to_every_worker_as_the_same_order() -> None:
    """With one id, made here if the client gave none; the answer is a worker's own."""
    with births() as born:
        async with admin_of(born) as (crew, client):
            made = (await client.post("/strategy?dry=1", json={"name": "session"})).json()
            given = (await client.post("/strategy", json={"name": "session", "id": "mine"})).json()
            cleared = (await client.delete("/strategy")).json()
            pids = {worker.pid for worker in crew.workers}

    assert (made["path"], made["query"], made["method"]) == ("/strategy", "dry=1", "POST")
    order = json.loads(made["body"])
    assert order["name"] == "session"
    assert order["id"]
    assert json.loads(given["body"]) == {"name": "session", "id": "mine"}
    assert json.loads(cleared["body"])["id"]
    assert cleared["headers"]["content-type"] == "application/json"
    assert {made["pid"], given["pid"]} <= pids


async def test_a_page_that_is_not_the_supervisors_is_a_workers() -> None:
    """Asked without a body."""
    with births() as born:
        async with admin_of(born) as (_, client):
            page = (await client.get("/orders")).json()

    assert (page["path"], page["method"], page["body"]) == ("/orders", "GET", "")


@pytest.mark.parametrize("body", [b"[1]", b"{odd"])
async def test_what_is_no_order_passes_as_it_is(body: bytes) -> None:
    """Workers say what is wrong with it; the type of a body is never made up."""
    with births() as born:
        async with admin_of(born, 1) as (_, client):
            page = (await client.post("/drain", content=body)).json()

    assert page["body"] == body.decode()
    assert "content-type" not in page["headers"]


async def test_if_all_refuse_the_first_refusal_is_the_answer() -> None:
    """And both are named."""
    with births() as born:
        async with admin_of(born) as (_, client):
            answer = await client.post("/refuse", json={})

    assert answer.status_code == 409
    assert answer.headers["x-prefixway-workers-failed"] == "1,2"


async def test_workers_that_give_no_answer_are_named() -> None:
    """One is gone in that moment: the order was taken by the other."""
    with births() as born:
        async with admin_of(born) as (crew, client):
            gone = crew.workers[1]
            gone.admin_path = "/nowhere"
            answer = await client.post("/drain", json={"server": "one"})

    assert answer.status_code == 200
    assert answer.headers["x-prefixway-workers-failed"] == "2"


async def test_without_any_worker_orders_are_refused() -> None:
    """503, with OpenAI's shape of an error."""
    with births() as born:
        async with admin_of(born, 1) as (crew, client):
            crew.workers[0].admin_path = "/nowhere"
            answer = await client.post("/drain", json={"server": "one"})

    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "no worker answers"


async def test_the_token_is_asked_for_here_and_workers_get_their_own() -> None:
    """On every path; what clients send stays here."""
    with births() as born:
        async with admin_of(born, 1, token="t0") as (_, client):
            denied = [await client.get(path) for path in ("/status", "/replicas", "/orders")]
            denied.append(await client.post("/drain", json={}, headers={"authorization": "Bearer t1"}))
            allowed = await client.get("/orders", headers={"authorization": "Bearer t0"})

    assert [answer.status_code for answer in denied] == [401] * 4
    assert allowed.json()["headers"]["authorization"] == "Bearer workers' own"


async def test_an_explanation_is_one_workers_word() -> None:
    """The body as it is, with what belongs to it; the worker is named. One that gives no answer is passed over."""
    with births() as born:
        async with admin_of(born) as (crew, client):
            headers = {"x-prefixway-strategy": "kv_aware", "content-type": "text/odd"}
            answer = await client.post("/explain?path=/v1/x", content=b'{"prompt": 1}', headers=headers)
            crew.workers[0].admin_path = "/nowhere"
            other = await client.post("/explain", content=b"{}")
            crew.workers[1].admin_path = "/nowhere"
            nobody = await client.post("/explain", content=b"{}")
    asked = answer.json()

    assert (asked["path"], asked["query"], asked["body"]) == ("/explain", "path=/v1/x", '{"prompt": 1}')
    assert asked["headers"]["content-type"] == "text/odd"
    assert asked["headers"]["x-prefixway-strategy"] == "kv_aware"
    assert asked["headers"]["authorization"] == "Bearer workers' own"
    assert (answer.headers["x-prefixway-worker"], other.headers["x-prefixway-worker"]) == ("1", "2")
    assert nobody.status_code == 503
