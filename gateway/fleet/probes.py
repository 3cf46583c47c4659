"""Probes: ask every server how it is, over HTTP, and tell the pool.

One task a server, so that a black hole delays nobody else. What changes is logged once, not at every round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import httpx

from gateway.fleet.event_source import EventSource, connectable
from gateway.fleet.load_report import ServerReport, parse_metrics
from gateway.fleet.model_card import ModelCard, parse_models
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server
from gateway.supervisor import keep_running

if TYPE_CHECKING:
    from gateway.fleet.server_spec import ServerSpec

_log = logging.getLogger(__name__)

#: Finds a rank's event source where neither the server's spec nor the server itself names one.
SourceFinder = Callable[["ServerSpec", int], EventSource | None]


class Probes:
    """Runs one prober for each server of the pool, starting and stopping them as the fleet changes."""

    def __init__(
        self,
        pool: ReplicaPool,
        *,
        clock: Callable[[], float],
        interval_s: float = 2.0,
        timeout_s: float = 5.0,
        api_key: str | None = None,
        sources: SourceFinder | None,
        ask_sources: bool = True,
    ) -> None:
        """``sources`` finds what configuration says of a rank's events; ``None``: events are not wanted at all."""
        self._pool = pool
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._find_source = sources
        self._ask_sources = ask_sources and sources is not None
        self._refused: set[tuple[Server, str]] = set()

    async def run(self) -> None:
        """Probe until cancelled. May be run again after a failure."""
        tasks: dict[Server, asyncio.Task[None]] = {}
        http = httpx.AsyncClient(
            headers=self._headers, timeout=self._timeout_s, trust_env=False, follow_redirects=False
        )
        async with http, asyncio.TaskGroup() as group:
            while True:
                current = set(self._pool.servers)
                for server in [server for server in tasks if server not in current]:
                    tasks.pop(server).cancel()
                for server in current - tasks.keys():
                    prober = partial(self._probe_forever, http, server)
                    tasks[server] = group.create_task(keep_running(prober, f"the prober of {server.id}"))
                await asyncio.sleep(min(self._interval_s, 0.25))

    async def _probe_forever(self, http: httpx.AsyncClient, server: Server) -> None:
        while True:
            await self._probe(http, server)
            await asyncio.sleep(self._interval_s)

    async def _probe(self, http: httpx.AsyncClient, server: Server) -> None:
        """One round. A server that answers /health is healthy, whatever its other pages say."""
        before = server.healthy
        fault = await self._health(http, server)
        if fault:
            server.probe_missed(fault)
        else:
            report = await self._metrics(http, server)
            await self._identify(http, server, report)
            self._report(server, report)
            server.probe_answered()
        if server.healthy != before:
            level = logging.INFO if server.healthy else logging.WARNING
            state = "healthy" if server.healthy else f"down: {fault}"
            _log.log(level, "replica %s is %s", server.id, state)

    async def _health(self, http: httpx.AsyncClient, server: Server) -> str:
        try:
            answer = await http.get(f"{server.spec.origin.url}/health")
        except httpx.HTTPError as error:
            return f"/health: {type(error).__name__}"
        return "" if answer.is_success else f"/health answered {answer.status_code}"

    async def _identify(self, http: httpx.AsyncClient, server: Server, report: ServerReport) -> None:
        cards = await self._models(http, server)
        asked = await self._asked_sources(http, server) if self._ask_sources else {}
        ranks = sorted({*asked, *report.ranks}) or [replica.key.rank for replica in server.replicas] or [0]
        sources = {rank: source for rank in ranks if (source := self._source(server, asked, rank)) is not None}
        known = [replica.key.rank for replica in server.replicas]
        if cards != server.cards or sources != server.event_sources or ranks != known:
            self._pool.identify(server, cards, sources, ranks)

    def _source(self, server: Server, asked: Mapping[int, EventSource], rank: int) -> EventSource | None:
        """The server's own configuration first, then its own word, then what holds for the whole fleet."""
        if self._find_source is None:
            return None
        return server.spec.event_source(rank) or asked.get(rank) or self._find_source(server.spec, rank)

    async def _models(self, http: httpx.AsyncClient, server: Server) -> tuple[ModelCard, ...]:
        """The server's models; what is known where it does not say."""
        answer = await self._get_json(http, server, "/v1/models")
        return server.cards if answer is None else parse_models(answer)

    async def _asked_sources(self, http: httpx.AsyncClient, server: Server) -> dict[int, EventSource]:
        answer = await self._get_json(http, server, "/kv_event_sources")
        if answer is None:
            return server.event_sources  # an older vLLM, or a moment's failure: keep what is known
        host = server.spec.origin.host
        found: dict[int, EventSource] = {}
        for rank, entry in answer.items() if isinstance(answer, dict) else ():
            if isinstance(entry, dict) and str(rank).isdecimal() and isinstance(entry.get("endpoint"), str):
                replay = entry.get("replay_endpoint")
                topic = entry.get("topic")
                found[int(rank)] = EventSource(
                    connectable(entry["endpoint"], host),
                    connectable(replay, host) if isinstance(replay, str) and replay else None,
                    topic if isinstance(topic, str) else "",
                )
        return found

    async def _metrics(self, http: httpx.AsyncClient, server: Server) -> ServerReport:
        """What /metrics says; nothing where it does not answer."""
        try:
            answer = await http.get(f"{server.spec.origin.url}/metrics")
        except httpx.HTTPError:
            return ServerReport({}, None)
        return parse_metrics(answer.text) if answer.is_success else ServerReport({}, None)

    def _report(self, server: Server, report: ServerReport) -> None:
        now = self._clock()
        for replica in server.replicas:
            if (rank_report := report.ranks.get(replica.key.rank)) is not None:
                replica.reported(rank_report, now)
        if report.process_start_s is not None:
            self._pool.process_started(server, report.process_start_s)

    async def _get_json(self, http: httpx.AsyncClient, server: Server, path: str) -> object | None:
        try:
            answer = await http.get(f"{server.spec.origin.url}{path}")
            self._note_refusal(server, path, answer.status_code)
            return answer.json() if answer.is_success else None
        except (httpx.HTTPError, ValueError):
            return None

    def _note_refusal(self, server: Server, path: str, status: int) -> None:
        """Say once that our key is not the replica's: it looks healthy, and every request would fail."""
        if status not in (401, 403):
            self._refused.discard((server, path))
        elif (server, path) not in self._refused:
            self._refused.add((server, path))
            _log.error("replica %s answers %s with %d: is PREFIXWAY_REPLICA_API_KEY right?", server.id, path, status)
