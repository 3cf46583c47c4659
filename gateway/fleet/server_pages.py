"""ServerPages: what a server's pages say, read with distrust.

Owns HTTP and parsing: a page that is late, huge, broken or nonsense is an unknown, never an error. Knows no pool.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import NamedTuple

import httpx

from gateway.fleet.event_source import EventSource, checked_endpoint, connectable
from gateway.fleet.load_report import ServerReport, parse_metrics
from gateway.fleet.model_card import ModelCard, parse_models
from gateway.fleet.origin import Origin

_log = logging.getLogger(__name__)
_MOST_PAGE_BYTES = 16_000_000
_MOST_RANKS = 4096


class Page(NamedTuple):
    """An answer in full, or ``fault``: why there is none."""

    status: int
    content: bytes
    fault: str = ""


class ServerPages:
    """The pages of one server. ``timeout_s`` bounds each of them as a whole."""

    def __init__(self, http: httpx.AsyncClient, server_id: str, origin: Origin, timeout_s: float) -> None:
        self._http = http
        self._server_id = server_id
        self._origin = origin
        self._timeout_s = timeout_s
        self._complaints: set[str] = set()

    async def health(self) -> str:
        """ "" if the server is well, else what is wrong."""
        page = await self._get("/health")
        if page.fault:
            return f"/health: {page.fault}"
        return "" if 200 <= page.status < 300 else f"/health answered {page.status}"

    async def models(self) -> tuple[ModelCard, ...] | None:
        """What /v1/models lists; ``None``: it does not say."""
        answer = await self._get_json("/v1/models")
        return None if answer is None else parse_models(answer)

    async def metrics(self) -> ServerReport:
        """What /metrics says; nothing where it does not answer."""
        page = await self._get("/metrics")
        if page.status != 200:
            return ServerReport({}, None)
        return parse_metrics(page.content.decode("utf-8", "replace"))

    async def event_sources(self) -> dict[int, EventSource] | None:
        """What /kv_event_sources says, by rank; ``None``: it does not, as before vLLM 0.32."""
        answer = await self._get_json("/kv_event_sources")
        if not isinstance(answer, dict):
            return None
        found: dict[int, EventSource] = {}
        for rank, entry in answer.items():
            source = self._event_source(entry)
            if source is not None and rank.isdecimal() and len(rank) < 6 and int(rank) < _MOST_RANKS:
                found[int(rank)] = source
        return found

    def _event_source(self, entry: object) -> EventSource | None:
        if not isinstance(entry, dict) or not isinstance(entry.get("endpoint"), str):
            return None
        replay, topic = entry.get("replay_endpoint"), entry.get("topic")
        try:
            return EventSource(
                self._connectable(entry["endpoint"]),
                self._connectable(replay) if isinstance(replay, str) and replay else None,
                topic if isinstance(topic, str) else "",
            )
        except ValueError as error:
            self._complain(f"names an event source that is none: {error}")
            return None

    def _connectable(self, endpoint: str) -> str:
        return checked_endpoint(connectable(endpoint, self._origin.host))

    async def _get_json(self, path: str) -> object | None:
        page = await self._get(path)
        if page.status in (401, 403):
            self._complain(f"answers {path} with {page.status}: is PREFIXWAY_REPLICA_API_KEY right?")
        if page.status != 200:
            return None
        try:
            answer: object = json.loads(page.content)
        except (ValueError, RecursionError):
            return None
        return answer

    async def _get(self, path: str) -> Page:
        try:
            async with asyncio.timeout(self._timeout_s), self._http.stream("GET", self._origin.url + path) as answer:
                content = b""
                async for chunk in answer.aiter_bytes():
                    content += chunk
                    if len(content) > _MOST_PAGE_BYTES:
                        return Page(0, b"", "endless")
                return Page(answer.status_code, content)
        except TimeoutError:
            return Page(0, b"", "no answer in time")
        except httpx.ConnectError as error:  # a name that is none, no TLS, or nobody there: the text tells
            return Page(0, b"", f"{type(error).__name__}: {error}")
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            return Page(0, b"", type(error).__name__)

    def _complain(self, complaint: str) -> None:
        """Once: every round finds the same."""
        if complaint not in self._complaints:
            self._complaints.add(complaint)
            _log.error("replica %s %s", self._server_id, complaint)
