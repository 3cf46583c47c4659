"""Probes: ask every server how it is and tell the pool.

One task a server, so that a black hole delays nobody else. What changes is logged once, not at every round. Between
rounds a server is asked for its load again where strangers send requests to it: nobody else tells of those.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import httpx

from gateway.fleet.event_source import EventSource
from gateway.fleet.load_report import ServerReport
from gateway.fleet.model_card import ModelCard
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server
from gateway.fleet.server_pages import ServerPages
from gateway.fleet.strangers import reports_in
from gateway.supervisor import keep_running

if TYPE_CHECKING:
    from gateway.fleet.server_spec import ServerSpec

_log = logging.getLogger(__name__)
_NOTICED_AFTER_S = 0.05  # a server that joined the pool
_MOST_NAMES = 3  # of models, in a fault
_LONGEST_NAME = 100

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

    async def run(self) -> None:
        """Probe until cancelled. May be run again after a failure."""
        tasks: dict[Server, asyncio.Task[None]] = {}
        # No limit: a probe must never wait for other servers that do not answer.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        http = httpx.AsyncClient(headers=self._headers, timeout=self._timeout_s, limits=limits, trust_env=False)
        async with http, asyncio.TaskGroup() as group:
            while True:
                current = set(self._pool.servers)
                for server in [server for server in tasks if server not in current]:
                    tasks.pop(server).cancel()
                for server in current - tasks.keys():
                    prober = partial(self._probe_forever, server, self._pages(http, server))
                    tasks[server] = group.create_task(keep_running(prober, f"the prober of {server.id}"))
                await asyncio.sleep(min(self._interval_s, _NOTICED_AFTER_S))

    def _pages(self, http: httpx.AsyncClient, server: Server) -> ServerPages:
        return ServerPages(http, server.id, server.spec.origin, self._timeout_s)

    async def _probe_forever(self, server: Server, pages: ServerPages) -> None:
        while True:
            await self._probe(server, pages)
            self._pool.settle_drain(server)
            await self._pause(server, pages)

    async def _pause(self, server: Server, pages: ServerPages) -> None:
        """Until the next round."""
        reports = reports_in(self._interval_s)
        for _ in range(reports - 1):
            await asyncio.sleep(self._interval_s / reports)
            if server.healthy and server.has_strangers:
                self._report(server, await self._load(server, pages))
        await asyncio.sleep(self._interval_s / reports)

    async def _probe(self, server: Server, pages: ServerPages) -> None:
        """One round. A server that answers /health is healthy, whatever its other pages say, unless it is another
        than was meant: then nothing else is learned of it.

        A new one is learned before it is called healthy, so that it can be chosen from then on.
        """
        fault, cards = await pages.health(), None
        if server.spec.model and not fault:
            cards = await pages.models()
            # A page that fails does not acquit one that was another before.
            stranger = server.refutation if cards is None else strangeness(server.spec.model, cards)
            if stranger:
                self._refute(server, stranger)
                return
        is_new = not server.replicas
        if is_new and not fault:
            await self._learn(server, pages, cards)
        self._note(server, fault)
        if not is_new and not fault:
            await self._learn(server, pages, cards)

    def _refute(self, server: Server, fault: str) -> None:
        if server.fault != fault:
            _log.warning("replica %s is not the one that was meant: it %s", server.id, fault)
        server.refuted(fault)

    def _note(self, server: Server, fault: str) -> None:
        before = server.healthy
        if fault:
            server.probe_missed(fault)
        else:
            server.probe_answered()
        if server.healthy and not before:
            _log.info("replica %s is healthy", server.id)
        elif before and not server.healthy:
            _log.warning("replica %s is down: %s", server.id, fault)

    async def _learn(self, server: Server, pages: ServerPages, models: tuple[ModelCard, ...] | None) -> None:
        """Models, ranks, event sources and load. What a page does not say stays as it is known.

        ``models``: if they were asked for already.
        """
        report = await self._load(server, pages)
        if models is None:
            models = await pages.models()
        cards = server.cards if models is None else models
        asked = await pages.event_sources() if self._ask_sources else {}
        told = server.event_sources if asked is None else asked
        ranks = sorted({*told, *report.ranks}) or [replica.key.rank for replica in server.replicas] or [0]
        sources = {rank: source for rank in ranks if (source := self._source(server, told, rank)) is not None}
        known = [replica.key.rank for replica in server.replicas]
        if cards != server.cards or sources != server.event_sources or ranks != known:
            self._pool.identify(server, cards, sources, ranks)
        self._report(server, report)

    @staticmethod
    async def _load(server: Server, pages: ServerPages) -> ServerReport:
        for replica in server.replicas:
            replica.asked()
        return await pages.metrics()

    def _source(self, server: Server, told: Mapping[int, EventSource], rank: int) -> EventSource | None:
        """The server's own configuration first, then its own word, then what holds for the whole fleet."""
        if self._find_source is None:
            return None
        return server.spec.event_source(rank) or told.get(rank) or self._find_source(server.spec, rank)

    def _report(self, server: Server, report: ServerReport) -> None:
        now, replaced = self._clock(), False
        for replica in server.replicas:
            if (rank_report := report.ranks.get(replica.key.rank)) is not None:
                replaced = replaced or replica.report.is_older_process(rank_report)
                replica.reported(rank_report, now)
            else:
                replica.unreported(now)
        if report.process_start_s is not None:
            self._pool.process_started(server, report.process_start_s, now)
        elif replaced:
            self._pool.process_replaced(server, now)
        if report.ranks:
            self._note_cache(server, report)

    def _note_cache(self, server: Server, report: ServerReport) -> None:
        """Ranks fall asleep and wake together."""
        asleep = any(rank_report.asleep for rank_report in report.ranks.values())
        if asleep is not server.asleep:
            _log.info("replica %s is %s", server.id, "asleep" if asleep else "awake")
        self._pool.slept(server, asleep)
        self._pool.resets_counted(server, report.resets)


def strangeness(model: str, cards: Sequence[ModelCard]) -> str:
    """Why a server with these models is not the one that serves ``model``; "": it is.

    As when the address of a pod that is gone was given to another one.
    """
    names = [card.id for card in cards]
    if model in names:
        return ""
    shown = ", ".join(name[:_LONGEST_NAME] for name in names[:_MOST_NAMES]) or "nothing"
    return f"serves {shown}, not {model[:_LONGEST_NAME]}"
