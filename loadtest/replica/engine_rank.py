"""EngineRank: one data-parallel rank of a replica: a cache, the scheduler that fills it, its event stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from loadtest.replica.block_cache import BlockCache
from loadtest.replica.chunk_store import ChunkStore
from loadtest.replica.kv_events import KVEvent
from loadtest.replica.options import ReplicaOptions
from loadtest.replica.publisher import EventPublisher
from loadtest.replica.scheduler import Scheduler
from loadtest.replica.silent_faults import SilentFaults


class EngineRank:
    """Owns the task that steps its scheduler, from :meth:`start` to :meth:`stop`."""

    def __init__(self, options: ReplicaOptions, rank: int, topic: str, silent: SilentFaults | None = None) -> None:
        self.rank = rank
        self.silent = silent or SilentFaults()
        self._options = options
        replay = options.replay_endpoint
        self.publisher = EventPublisher(
            endpoint=options.endpoint_of(options.events_endpoint, rank),
            replay_endpoint=options.endpoint_of(replay, rank) if replay is not None else None,
            topic=topic,
            dialect=options.event_dialect,
            buffer_steps=options.buffer_steps,
            rank=rank,
        )
        self._renew()
        self._stepping: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<EngineRank {self.rank} {self.scheduler!r} {self.publisher!r}>"

    @property
    def load(self) -> int:
        """Requests queued or running."""
        return self.scheduler.running + self.scheduler.waiting

    async def start(self) -> None:
        if self._options.kv_events:
            await self.publisher.start()
        self._stepping = asyncio.get_running_loop().create_task(self.scheduler.run())

    async def stop(self) -> None:
        if self._stepping is not None:
            self._stepping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._stepping
            self._stepping = None
        await self.publisher.stop()

    async def restart(self) -> None:
        """Nothing is left of the old process but its ports."""
        await self.stop()
        self.publisher.renew()
        self._renew()
        await self.start()

    def _renew(self) -> None:
        options = self._options
        self.cache = BlockCache(
            options.capacity_blocks,
            options.block_size,
            seed=options.hash_seed,
            bytes_hashes=options.bytes_hashes,
            is_on=lambda: self.silent.caches,
        )
        self.scheduler = Scheduler(self.cache, options.speeds, self._publish, self._chunks())

    def _chunks(self) -> ChunkStore | None:
        """Host memory ends with the process, shared storage does not."""
        options = self._options
        if not options.host_chunks and options.storage is None:
            return None
        return ChunkStore(
            host_chunks=options.host_chunks,
            storage=options.storage,
            chunk_tokens=options.chunk_tokens,
            tells_removals=options.tells_host_removals,
        )

    def _publish(self, events: Sequence[KVEvent]) -> None:
        if self._options.kv_events:
            self.publisher.publish(self.silent.published(events), delay_s=self.silent.delays_events_s)
