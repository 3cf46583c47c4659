"""WorkerPages: asks workers for pages of their own, over their private sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import httpx

from gateway.workers.worker_process import WorkerProcess

_log = logging.getLogger(__name__)

TIMEOUT_S = 2.0


class Question(NamedTuple):
    """A request to the admin port of a worker, or to its metrics port."""

    target: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""
    port: str = "admin"
    timeout_s: float | None = None  # the pages' own


class WorkerPages:
    """A worker that does not answer within ``timeout_s`` is left out."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    async def ask(self, worker: WorkerProcess, question: Question) -> httpx.Response | None:
        """Its answer, read to the end; ``None`` if it gives none in time."""
        path = worker.metrics_path if question.port == "metrics" else worker.admin_path
        timeout_s = question.timeout_s or self._timeout_s
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx.AsyncClient(
                    transport=httpx.AsyncHTTPTransport(uds=path, verify=False),
                    base_url="http://worker",
                    timeout=timeout_s,
                ) as client,
            ):
                return await client.request(
                    question.method, question.target, headers=dict(question.headers), content=question.body
                )
        except (httpx.HTTPError, TimeoutError) as error:
            if worker.is_alive:
                _log.warning("worker %d does not answer: %s", worker.slot, type(error).__name__)
            return None

    async def ask_all(
        self, workers: Iterable[WorkerProcess], question: Question
    ) -> dict[WorkerProcess, httpx.Response | None]:
        """The same of several, at the same time. Those that have not spoken yet are not asked."""
        asked = [worker for worker in workers if worker.has_spoken and worker.is_alive]
        answers = await asyncio.gather(*(self.ask(worker, question) for worker in asked))
        return dict(zip(asked, answers))
