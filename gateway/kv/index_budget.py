"""IndexBudget: keeps what this process knows of caches within a bound of memory, the least useful given up first.

First what hashes mean that most likely name nothing any more; then what is estimated to lie in shared storage, the
oldest first; then prompts sent to replicas without events, the least recently used first; then what replicas hold, of
those that are known to hold most, a tenth of it at a time; see :mod:`gateway.kv.thinning`. Whoever has to write what is
held elsewhere, such as into Redis, hears of it as of any removal.

However much that memory may be, of one tier of a replica never much more is believed held than any GPU or host holds: a
publisher that never removes loses what helps least instead.

The memory is estimated: numbers of entries, times what one was measured to take (`python -m benchmarks.kv`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Generator
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier, SpaceSize
from gateway.kv.indexer import Indexer
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier

_log = logging.getLogger(__name__)

#: Of a pair of block and owner, in the index and in the counts of copies.
BYTES_PER_OWNER = 140
#: Of what a publisher's hash means, and what comes before it.
BYTES_PER_HASH = 150
#: Of a block of a prompt that was sent to a replica, in flight or kept.
BYTES_PER_SENT = 190
#: Of a chunk of a prompt that is estimated to lie in shared storage.
BYTES_PER_CHUNK = 220

#: Far above any GPU's cache: 32 million tokens at 16 a block.
MAX_BLOCKS_PER_TIER = 2_000_000
_MB = 1_000_000
_ENOUGH = 0.95  # of the bound: so much is left once it was exceeded
_WATCHFUL = 0.8  # of the bound: from here on it is noted what is asked for
_LOOK_S = 1.0
_REST_S = 0.002  # after each step, in which others run
_SENT_AT_A_TIME = 5_000
_CHUNKS_AT_A_TIME = 5_000
_HELD_AT_A_TIME = 0.1

#: Steps of a millisecond or two each; at the end, how many entries were given up.
Steps = Generator[None, None, int]


class _Known(NamedTuple):
    """What is known of one tier of a replica, and by whom."""

    key: ReplicaKey
    applier: Applier
    size: SpaceSize


class IndexBudget:
    """:meth:`run` it. ``limit_mb``: megabytes, of a million bytes; ``None``: no bound. ``clock``: ``routed``'s."""

    def __init__(
        self,
        indexer: Indexer,
        memory: MemoryIndex,
        routed: Routed,
        *,
        limit_mb: float | None,
        clock: Callable[[], float],
        max_blocks_per_tier: int = MAX_BLOCKS_PER_TIER,
        l2: L2Estimate | None = None,
    ) -> None:
        self._clock = clock
        self._max_blocks_per_tier = max_blocks_per_tier
        self.limit_bytes = None if limit_mb is None else int(limit_mb * _MB)
        #: Entries that were given up: held blocks, hashes, prompts' blocks sent, chunks estimated to be in L2.
        self.given_up: Counter[str] = Counter(held=0, hashes=0, sent=0)
        if l2 is not None:
            self.given_up["estimated"] = 0
        self._indexer = indexer
        self._memory = memory
        self._routed = routed
        self.l2 = l2

    def __repr__(self) -> str:
        return f"<IndexBudget {self.used_bytes} of {self.limit_bytes} bytes>"

    @property
    def used_bytes(self) -> int:
        """Memory of the index, of what is needed to write it, and of what was sent where: an estimate."""
        hashes = sum([size.resolved for _, _, size in self._sizes()])
        owners, sent = self._memory.block_owners(), self._routed.entries
        chunks = 0 if self.l2 is None else self.l2.chunks
        return owners * BYTES_PER_OWNER + hashes * BYTES_PER_HASH + sent * BYTES_PER_SENT + chunks * BYTES_PER_CHUNK

    def status(self) -> dict[str, object]:
        """For /status."""
        estimated = {} if self.l2 is None else {"l2": self.l2.status(self._clock())}
        limit, given_up = self.limit_bytes, dict(self.given_up)
        return {"bytes": self.used_bytes, "bytes_limit": limit, "given_up": given_up, **estimated}

    async def run(self) -> None:
        """Keep the bound until cancelled."""
        while True:
            if self.look():
                before = self.given_up.total()
                for _ in self.relieve():
                    await asyncio.sleep(_REST_S)
                if self.given_up.total() > before:
                    level = logging.DEBUG if before else logging.WARNING  # it may happen again and again
                    _log.log(level, "the index outgrows its memory: %r, given up: %s", self, dict(self.given_up))
            await asyncio.sleep(_LOOK_S)

    def look(self) -> bool:
        """Whether a bound is exceeded. What time alone ends is forgotten first."""
        if self.l2 is not None:
            self.l2.expire(self._clock())
        crowded = self._crowded() is not None
        if self.limit_bytes is None:
            return crowded
        used = self.used_bytes
        self._memory.note_asked(used > self.limit_bytes * _WATCHFUL)
        return crowded or used > self.limit_bytes

    def relieve(self) -> Generator[None]:
        """Give up what exceeds a bound, and some more, step by step: a millisecond or two each."""
        self._routed.expire(self._clock())
        while (crowded := self._crowded()) is not None:
            given_up = yield from self._thin_one(crowded, self._max_blocks_per_tier)
            self.given_up["held"] += given_up
            if not given_up:
                break
        if self.limit_bytes is not None:
            yield from self._free_memory(self.limit_bytes * _ENOUGH)

    def _free_memory(self, enough: float) -> Generator[None]:
        for kind, give_up in (
            ("hashes", self._forget_spare),
            ("estimated", self._forget_estimated),
            ("sent", self._forget_sent),
            ("held", self._thin),
            ("hashes", self._forget_unowned),
        ):
            while self.used_bytes > enough:
                given_up = yield from give_up()
                if not given_up:
                    break
                self.given_up[kind] += given_up

    def _sizes(self) -> list[_Known]:
        return [_Known(key, applier, size) for key, applier in self._indexer.appliers() for size in applier.sizes()]

    def _most(self, amount: Callable[[SpaceSize], int]) -> _Known | None:
        """The one with the most of it; ``None``: none has any."""
        known = max(self._sizes(), key=lambda each: amount(each.size), default=None)
        return known if known is not None and amount(known.size) else None

    def _forget_spare(self) -> Steps:
        known = self._most(lambda size: size.spare)
        if known is None:
            return 0
        return (yield from self._while_known(known, known.applier.forget_spare(known.size.tier)))

    def _forget_estimated(self) -> Steps:
        given_up = 0 if self.l2 is None else self.l2.forget_oldest(_CHUNKS_AT_A_TIME)
        yield
        return given_up

    def _forget_sent(self) -> Steps:
        given_up = self._routed.forget_oldest(_SENT_AT_A_TIME)
        yield
        return given_up

    def _thin(self) -> Steps:
        known = self._most(lambda size: size.owned)
        return 0 if known is None else (yield from self._thin_one(known, known.size.owned))

    def _crowded(self) -> _Known | None:
        """The tier of a replica with the most blocks, where that is more than there can be."""
        known = self._most(lambda size: size.owned)
        return known if known is not None and known.size.owned > self._max_blocks_per_tier else None

    def _thin_one(self, known: _Known, blocks: int) -> Steps:
        """Keep a tenth less than so many blocks."""
        tier, keep = known.size.tier, int(blocks * (1 - _HELD_AT_A_TIME))
        asked = self._memory.asked_of(known.key) if tier is Tier.L0 else ()
        return (yield from self._while_known(known, known.applier.thin(tier, keep, asked)))

    def _forget_unowned(self) -> Steps:
        known = self._most(lambda size: size.resolved)
        if known is None:
            return 0
        return (yield from self._while_known(known, known.applier.forget_spare(known.size.tier, all_unowned=True)))

    def _while_known(self, known: _Known, steps: Steps) -> Steps:
        """Not a step more once the replica is another process, or not followed any longer."""
        given_up = 0
        while self._indexer.applier(known.key) is known.applier:
            try:
                next(steps)
            except StopIteration as end:
                given_up = end.value
                break
            yield
        steps.close()
        return given_up
