"""CrewAdmin: the admin port of a supervisor.

/status and /replicas are one page of all workers'. /explain is one worker's word. Everything else goes to every worker,
as one order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gateway import __version__
from gateway.observe.admin_app import guard
from gateway.observe.explain_route import STRATEGY_HEADER
from gateway.workers.crew import Crew
from gateway.workers.merged_status import merged_replicas, merged_status
from gateway.workers.worker_pages import Question, WorkerPages
from gateway.workers.worker_process import WorkerProcess

_ORDER_TIMEOUT_S = 10.0  # a worker may have to wait for Redis
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_NO_WORKER = {"error": {"message": "no worker answers", "type": "service_unavailable", "code": None}}


class CrewAdmin:
    """``worker_token`` is what workers want. ``clock``: seconds, monotonic."""

    def __init__(
        self,
        crew: Crew,
        pages: WorkerPages,
        worker_token: str,
        *,
        settings: Mapping[str, str],
        unknown_settings: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._crew = crew
        self._pages = pages
        self._headers = {"authorization": f"Bearer {worker_token}"}
        self._settings = settings
        self._unknown_settings = unknown_settings
        self._clock = clock
        self._started_s = clock()

    async def status(self) -> dict[str, Any]:
        """The supervisor, the workers one by one, and what they say together."""
        answers = await self._pages.ask_all(self._crew.workers, self._question("/status"))
        told = {worker: page.json() for worker, page in answers.items() if page is not None and page.is_success}
        return {
            **merged_status(list(told.values())),
            "ready": self._crew.is_ready,
            "settings": dict(self._settings),
            "unknown_settings": list(self._unknown_settings),
            "supervisor": self._supervisor(),
            "workers": [self._worker(worker, told.get(worker)) for worker in self._crew.workers],
        }

    async def replicas(self) -> list[dict[str, Any]]:
        """Each replica, as all workers see it."""
        answers = await self._pages.ask_all(self._crew.workers, self._question("/replicas"))
        return merged_replicas(page.json() for page in answers.values() if page is not None and page.is_success)

    async def forward(self, request: Request) -> Response:
        """Hand a request to every worker that stays, and answer as the first that did it; else as the first.

        An order without an ``id`` gets one, so that it is the same order for all. Workers that failed are named.
        """
        staying = [worker for worker in self._crew.workers if not worker.is_leaving]
        return _joint_answer(await self._pages.ask_all(staying, await self._passed_on(request)))

    async def explain(self, request: Request) -> Response:
        """As the first worker that answers would decide, its name in a header: of what they send where each knows its
        own at once, that of the others a moment later.
        """
        body, type_ = await request.body(), request.headers.get("content-type", "")
        names = {"content-type": type_, STRATEGY_HEADER: request.headers.get(STRATEGY_HEADER, "")}
        headers = self._headers | {name: value for name, value in names.items() if value}
        question = Question(_target(request), "POST", headers, body, timeout_s=_ORDER_TIMEOUT_S)
        for worker in self._crew.workers:
            if worker.is_leaving or not worker.has_spoken or not worker.is_alive:
                continue
            answer = await self._pages.ask(worker, question)
            if answer is not None:
                type_ = answer.headers.get("content-type", "application/json")
                told = {"content-type": type_, "x-prefixway-worker": str(worker.slot)}
                return Response(answer.content, answer.status_code, told)
        return JSONResponse(_NO_WORKER, 503)

    async def _passed_on(self, request: Request) -> Question:
        """The type of a body is never made up: a page in a browser may send one without."""
        body, type_ = await request.body(), request.headers.get("content-type", "")
        if request.method != "GET":
            body, type_ = _with_id(body), type_ if body else "application/json"
        headers = self._headers | ({"content-type": type_} if type_ else {})
        return Question(_target(request), request.method, headers, body, timeout_s=_ORDER_TIMEOUT_S)

    def _question(self, target: str) -> Question:
        return Question(target, headers=self._headers)

    def _supervisor(self) -> dict[str, Any]:
        tally = self._crew.tally
        return {
            "version": __version__,
            "uptime_s": round(self._clock() - self._started_s, 1),
            "workers": self._crew.states(),
            "deaths": tally.deaths,
            "replacements": tally.replacements,
            "connections_lost": tally.connections_lost,
        }

    def _worker(self, worker: WorkerProcess, status: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "worker": worker.slot,
            "pid": worker.pid,
            "state": worker.state,
            "connections": worker.report.connections,
            "status": status,
        }


def crew_admin_app(admin: CrewAdmin, token: str) -> FastAPI:
    """Its routes, as an ASGI app. ``token`` "" asks for none: then the port must be loopback."""
    app = FastAPI(title="Prefixway admin", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    guard(app, token)
    app.add_api_route("/status", admin.status, methods=["GET"], response_model=None)
    app.add_api_route("/replicas", admin.replicas, methods=["GET"], response_model=None)
    app.add_api_route("/explain", admin.explain, methods=["POST"], response_model=None)
    app.add_api_route("/{path:path}", admin.forward, methods=_METHODS, response_model=None)
    return app


def _target(request: Request) -> str:
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path


def _with_id(body: bytes) -> bytes:
    """A JSON object with an ``id``; anything else as it is, and no body as an object."""
    try:
        order = json.loads(body or b"{}")
    except ValueError:
        return body
    if not isinstance(order, dict) or order.get("id"):
        return body
    return json.dumps({**order, "id": uuid.uuid4().hex}).encode()


def _joint_answer(answers: Mapping[WorkerProcess, httpx.Response | None]) -> Response:
    given = [answer for answer in answers.values() if answer is not None]
    if not given:
        return JSONResponse(_NO_WORKER, 503)
    chosen = next((answer for answer in given if answer.is_success), given[0])
    failed = [str(worker.slot) for worker, answer in answers.items() if answer is None or not answer.is_success]
    headers = {"content-type": chosen.headers.get("content-type", "application/json")}
    if failed:
        headers["x-prefixway-workers-failed"] = ",".join(failed)
    return Response(chosen.content, chosen.status_code, headers)
