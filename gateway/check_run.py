"""CheckRun: a gateway that serves nobody, for as long as ``prefixway check`` takes.

It finds the replicas, probes them, follows their events and loads tokenizers as the gateway with these settings would,
listens on no port and shares nothing: whatever lies in Redis it neither reads nor writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from time import monotonic

from gateway.alone import Alone
from gateway.check.replica_caller import ReplicaCaller
from gateway.check.replica_checks import ReplicaChecks
from gateway.check.state_check import check_server
from gateway.check.verdict import Verdict, wrong
from gateway.fleet.remote_tokenizer import RemoteTokenizer
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.server import Server
from gateway.fleet_parts import discovery_of, probes_of
from gateway.kv.routed import Routed
from gateway.kv.trust import FeedState
from gateway.prompt.encoder import LocalEncoder
from gateway.prompt_parts import encoders_of
from gateway.proof_parts import knowledge_of
from gateway.router.encoder_loading import EncoderLoading
from gateway.settings import Settings
from gateway.supervisor import Part, keep_running

_PATIENCE_S = 6.0  # for whatever does not come up
_GLANCE_S = 0.02
_AT_A_TIME = 64  # replicas


class CheckRun:
    """Make it inside a running event loop; use :func:`check_run`. ``patience_s``: for replicas, events, tokenizers."""

    def __init__(
        self, settings: Settings, *, patience_s: float = _PATIENCE_S, clock: Callable[[], float] = monotonic
    ) -> None:
        """Raises ``SettingsError`` that says what is wrong."""
        self._clock = clock
        self._patience_s = patience_s
        self.pool = ReplicaPool(stall_s=settings.stall_s)
        self.alone = Alone(settings, self.pool, Routed(), clock=clock, wall_clock=lambda: datetime.now(UTC).timestamp())
        self._remote = RemoteTokenizer(self.pool, clock=clock, api_key=settings.replica_api_key or None)
        self._encoders = encoders_of(settings, self._remote)
        self._loading = EncoderLoading(self._encoders)
        self._caller = ReplicaCaller(api_key=settings.replica_api_key)
        self.knowledge = knowledge_of(settings, self.pool, self.alone, encoder=self._encoders.get, clock=clock)
        self._checks = ReplicaChecks(self.knowledge, self._caller)
        self.discovery = discovery_of(settings, self.pool, clock)
        self.parts: tuple[Part, ...] = (
            self.discovery,
            probes_of(settings, self.pool, clock),
            *self.alone.parts,
            self._loading,
        )
        for listener in (self.alone.events, self._loading):
            self.pool.listen(listener)

    async def close(self) -> None:
        self._encoders.close()
        await self._remote.close()
        await self._caller.close()

    async def check(self, progress: Callable[[str], None]) -> list[Verdict]:
        """Of every server, once it is settled or time is over. ``progress`` hears what is waited for."""
        if not await self._found(progress):
            detail = self.discovery.fault or f"no answer within {self._patience_s:g} s"
            return [wrong("replicas", "", "discovery_stale", detail)]
        limit = asyncio.Semaphore(_AT_A_TIME)
        waiting = {server.id for server in self.pool.servers}

        async def one(server: Server) -> list[Verdict]:
            await self._settle(server)
            async with limit:
                verdicts = await self._of_server(server)
            waiting.discard(server.id)
            progress(f"waiting for {', '.join(sorted(waiting)[:3])}" if waiting else "")
            return verdicts

        progress(f"checking {len(waiting)} replicas")
        return [verdict for rows in await asyncio.gather(*map(one, self.pool.servers)) for verdict in rows]

    async def _found(self, progress: Callable[[str], None]) -> bool:
        """Wait until it is known which servers there are. Whether it is by now."""
        if self.discovery.answered.is_set():
            return True
        progress("looking replicas up")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self.discovery.answered.wait()
        return self.discovery.answered.is_set()

    async def _of_server(self, server: Server) -> list[Verdict]:
        if not server.replicas:
            return list(check_server(server))
        rows = [verdict for replica in server.replicas for verdict in await self._checks.check(replica)]
        return list(dict.fromkeys(rows))  # ranks share a server

    async def _settle(self, server: Server) -> None:
        """Wait until it was probed, its events have caught up and its tokenizer was looked for."""
        deadline_s = self._clock() + self._patience_s
        while self._clock() < deadline_s and not self.is_settled(server):  # noqa: ASYNC110 - no one thing to wait for
            await asyncio.sleep(_GLANCE_S)

    def is_settled(self, server: Server) -> bool:
        """Whether all is known of it that is there to be known before a check."""
        if server.asleep:
            return True
        return server.healthy and bool(server.replicas) and all(map(self._is_seen, server.replicas))

    def _is_seen(self, replica: Replica) -> bool:
        stats, encoder = self.alone.stats(replica.key), self._encoders.get(replica.key.namespace)
        is_read = isinstance(encoder, LocalEncoder) or replica.key.namespace in self._loading.sources()
        return is_read and replica.reported_s is not None and (stats is None or stats.state is FeedState.FRESH)


@asynccontextmanager
async def check_run(settings: Settings, *, patience_s: float = _PATIENCE_S) -> AsyncIterator[CheckRun]:
    """One that runs inside the block."""
    run = CheckRun(settings, patience_s=patience_s)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(keep_running(part.run, type(part).__name__)) for part in run.parts]
            try:
                yield run
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        await run.close()
