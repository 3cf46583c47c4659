"""Probes: ask every server how it is, over HTTP, and tell the pool.

One task a server, so that a black hole delays nobody else. What changes is logged once, not at every round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx

from gateway.fleet.event_source import EventSource, connectable
from gateway.fleet.load_report import parse_metrics
from gateway.fleet.model_card import ModelCard, parse_models
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server

if TYPE_CHECKING:
    from gateway.fleet.server_spec import ServerSpec

_log = logging.getLogger(__name__)

#: Finds a server's event sources where neither its spec nor the server itself names them.
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
        ask_sources: bool = True,
        default_source: SourceFinder = lambda _spec, _rank: None,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._interval_s = interval_s
        self._ask_sources = ask_sources
        self._default_source = default_source
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout_s, trust_env=False, follow_redirects=False)
        self._tasks: dict[Server, asyncio.Task[None]] = {}
        self._refused: set[tuple[Server, str]] = set()

    async def run(self) -> None:
        """Probe until cancelled."""
        async with self._http, asyncio.TaskGroup() as group:
            while True:
                self._follow_fleet(group)
                await asyncio.sleep(min(self._interval_s, 0.25))

    def _follow_fleet(self, group: asyncio.TaskGroup) -> None:
        current = set(self._pool.servers)
        for server in [server for server in self._tasks if server not in current]:
            self._tasks.pop(server).cancel()
        for server in current - self._tasks.keys():
            self._tasks[server] = group.create_task(self._probe_forever(server), name=f"probe {server.id}")

    async def _probe_forever(self, server: Server) -> None:
        while True:
            await self.probe(server)
            await asyncio.sleep(self._interval_s)

    async def probe(self, server: Server) -> None:
        """One round. A server that answers /health is healthy, whatever its other pages say."""
        before = server.healthy
        fault = await self._health(server)
        if fault:
            server.probe_missed(fault)
        else:
            await self._identify(server)
            await self._metrics(server)
            server.probe_answered()
        if server.healthy != before:
            _log.log(
                logging.INFO if server.healthy else logging.WARNING,
                "replica %s is %s",
                server.id,
                "healthy" if server.healthy else f"down: {fault}",
            )

    async def _health(self, server: Server) -> str:
        try:
            answer = await self._http.get(f"{server.spec.origin.url}/health")
        except httpx.HTTPError as error:
            return f"/health: {type(error).__name__}"
        return "" if answer.is_success else f"/health answered {answer.status_code}"

    async def _identify(self, server: Server) -> None:
        cards = await self._models(server)
        sources = await self._sources(server)
        if cards is not None and (cards != server.cards or sources != server.event_sources or not server.replicas):
            self._pool.identify(server, cards, sources)

    async def _models(self, server: Server) -> tuple[ModelCard, ...] | None:
        """The server's models; empty where it lists none; ``None`` to keep what is known."""
        answer = await self._get_json(server, "/v1/models")
        if answer is None:
            return server.cards if server.replicas else ()
        return parse_models(answer)

    async def _sources(self, server: Server) -> dict[int, EventSource]:
        """Event sources by rank: the spec's word first, then the server's own, then the fleet's default."""
        asked = await self._asked_sources(server) if self._ask_sources else {}
        ranks = sorted(asked) or [0]
        found: dict[int, EventSource] = {}
        for rank in ranks:
            source = server.spec.event_source(rank) or asked.get(rank) or self._default_source(server.spec, rank)
            if source is not None:
                found[rank] = source
        return found

    async def _asked_sources(self, server: Server) -> dict[int, EventSource]:
        answer = await self._get_json(server, "/kv_event_sources")
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

    async def _metrics(self, server: Server) -> None:
        try:
            answer = await self._http.get(f"{server.spec.origin.url}/metrics")
        except httpx.HTTPError:
            return
        if not answer.is_success:
            return
        report = parse_metrics(answer.text)
        now = self._clock()
        for replica in server.replicas:
            if (rank_report := report.ranks.get(replica.key.rank)) is not None:
                replica.reported(rank_report, now)
        if report.process_start_s is not None:
            self._pool.process_started(server, report.process_start_s)

    async def _get_json(self, server: Server, path: str) -> object | None:
        try:
            answer = await self._http.get(f"{server.spec.origin.url}{path}")
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
