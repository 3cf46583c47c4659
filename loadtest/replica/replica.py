"""SimulatedReplica: a vLLM server as its clients see it, without a model.

HTTP, KV events and replay on real sockets; a real block cache; simulated time. Owns the ranks, the HTTP
server and the faults, and starts and stops them. Does not know who calls it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Self

from loadtest.replica.block_cache import BlockCache
from loadtest.replica.engine_rank import EngineRank
from loadtest.replica.faults import Faults
from loadtest.replica.generate_api import GenerateApi
from loadtest.replica.http_server import HttpServer, ReceivedRequest, Responder
from loadtest.replica.model_folder import ModelFolder
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.publisher import EventPublisher, wall_clock
from loadtest.replica.scheduler import Scheduler
from loadtest.replica.server_api import ServerApi
from loadtest.replica.silent_faults import SilentFaults

_CLOCK_STEP_S = 0.01  # how finely a process's start time is told
_REMEMBERED_REQUESTS = 10_000
_ERRAND_DELAY_S = 0.05  # so that whoever asked by HTTP still gets the answer


class SimulatedReplica:
    """Use as ``async with SimulatedReplica(ReplicaOptions(...)) as replica``.

    ``requests`` lists what arrived, ``faults`` makes it misbehave, ``silent`` does so unnoticed, ``cache`` is the truth
    about its blocks.
    """

    def __init__(self, options: ReplicaOptions | None = None, *, clock: Callable[[], float] = wall_clock) -> None:
        self.options = options or ReplicaOptions()
        self.folder = ModelFolder(self.options.folder)
        self.faults = Faults()
        self.requests: deque[ReceivedRequest] = deque(maxlen=_REMEMBERED_REQUESTS)
        self.start_time_s = 0.0
        self._clock = clock
        self._errands: set[asyncio.Task[None]] = set()
        self.silent = SilentFaults()
        topic = f"kv@{self.options.host}@{self.options.model}"
        self.ranks = [EngineRank(self.options, rank, topic, self.silent) for rank in range(self.options.ranks)]
        generate = GenerateApi(self.options, self.folder, self.ranks, self.faults, silent=self.silent, clock=clock)
        self._api = ServerApi(
            self.options,
            self.folder,
            self.ranks,
            self.faults,
            generate=generate,
            start_time_s=lambda: self.start_time_s,
            cue=self.cue,
        )
        self.http = HttpServer(self._handle, host=self.options.host, port=self.options.port)

    def __repr__(self) -> str:
        return f"<SimulatedReplica {self.url} {self.ranks!r}>"

    @property
    def url(self) -> str:
        return f"http://{self.http.host}:{self.http.port}"

    @property
    def cache(self) -> BlockCache:
        """Of rank 0."""
        return self.ranks[0].cache

    @property
    def scheduler(self) -> Scheduler:
        """Of rank 0."""
        return self.ranks[0].scheduler

    @property
    def publisher(self) -> EventPublisher:
        """Of rank 0."""
        return self.ranks[0].publisher

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Bind every port, then serve. Raises ``OSError`` or ``zmq.ZMQError`` where one is taken."""
        self.start_time_s = max(self._clock(), self.start_time_s + _CLOCK_STEP_S)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.stop)
            for rank in self.ranks:
                await rank.start()
            await self.http.start()
            on_failure.pop_all()

    async def stop(self) -> None:
        """Stop as a process that is killed: open connections are reset."""
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)
        await self.http.stop()
        for rank in self.ranks:
            await rank.stop()

    async def restart(self) -> None:
        """Die and come back on the same ports: empty cache, sequence 0, a new start time."""
        await self.http.stop()
        self.start_time_s = max(self._clock(), self.start_time_s + _CLOCK_STEP_S)
        for rank in self.ranks:
            await rank.restart()
        await self.http.start()

    async def refuse(self) -> None:
        """Refuse connections and reset the open ones, until :meth:`accept`."""
        await self.http.stop()

    async def accept(self) -> None:
        """Listen again, on the same port."""
        await self.http.start()

    async def cue(self, cues: Mapping[str, Any]) -> None:
        """Misbehave as JSON says: ``drop_frames``, ``slowdown`` (a factor), ``restart``, ``refuse_for_s``, ``silent``
        (what :meth:`SilentFaults.apply` takes), ``lose_cache``, ``freeze_replay``, and what :meth:`Faults.apply` takes.
        Raises ``ValueError``."""
        rest = dict(cues)
        self.silent.apply(rest.pop("silent", {}))
        lose_cache, freeze_replay = rest.pop("lose_cache", False), rest.pop("freeze_replay", False)
        dropped, slowdown = rest.pop("drop_frames", None), rest.pop("slowdown", None)
        restart, refuse_for_s = rest.pop("restart", False), rest.pop("refuse_for_s", None)
        self.faults.apply(rest)
        if restart:
            self._send_off(self.restart)
        elif refuse_for_s is not None:
            seconds = float(refuse_for_s)
            self._send_off(lambda: self._refuse_for(seconds))
        for rank in self.ranks:
            if dropped is not None:
                rank.publisher.drop_frames(int(dropped))
            if slowdown is not None:
                rank.scheduler.slowdown = float(slowdown)
            if lose_cache:
                rank.cache.lose()
            if freeze_replay:
                rank.publisher.freeze_replay()

    async def serve_forever(self) -> None:
        """Serve until cancelled."""
        async with self:
            await asyncio.get_running_loop().create_future()

    async def _refuse_for(self, seconds: float) -> None:
        await self.refuse()
        await asyncio.sleep(seconds)
        await self.accept()

    def _send_off(self, errand: Callable[[], Awaitable[None]]) -> None:
        async def after_the_answer() -> None:
            await asyncio.sleep(_ERRAND_DELAY_S)
            await errand()

        task = asyncio.get_running_loop().create_task(after_the_answer())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _handle(self, request: ReceivedRequest, responder: Responder) -> None:
        self.requests.append(request)
        await self._api.handle(request, responder)
