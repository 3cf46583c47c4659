"""Scheduler: which tokens of which request a replica computes next, and how long that step takes.

Continuous batching as vLLM does it: every step spends a budget of tokens on the running requests first (one
token for each that decodes, a chunk for each that still prefills), then admits waiting ones in order of
arrival; where blocks run out the youngest running request is preempted. Owns the queue and the simulated
time. Does not know text, HTTP or ZeroMQ.

Seconds of one step (P, K as in :class:`Speeds`; u tokens of prefill that start at context length s):

    step + sequence * n + sum over prefills of u/P * (1 + (s + u/2)/K) + context * sum of decode contexts

and, once for each request that was let in, those of loading what lies in host memory or in shared storage.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from loadtest.replica.block_cache import BlockCache, BlockTable, CacheScope
from loadtest.replica.chunk_store import ChunkStore
from loadtest.replica.kv_events import KVEvent


@dataclass(frozen=True, slots=True)
class Speeds:
    """An engine's times before ``time_scale``; the defaults are roughly an 8B model on one large GPU."""

    prefill_tokens_per_s: float = 12_000.0
    attention_tokens: float = 30_000.0  # the context length at which attention doubles a token's cost
    step_s: float = 0.012
    sequence_s: float = 0.0001  # per sequence in a step
    context_token_s: float = 65e-9  # per token of context that a decoding sequence reads
    chunk_tokens: int = 4096  # tokens one step may compute
    max_running: int = 128
    time_scale: float = 1.0  # 0: as fast as it goes
    l1_tokens_per_s: float = 120_000.0  # loaded from host memory
    l2_tokens_per_s: float = 34_000.0  # loaded from shared storage
    l2_fixed_s: float = 0.1  # until the first of them is there

    def prefill_s(self, start: int, tokens: int) -> float:
        """Seconds of computing ``tokens`` that start at context length ``start``."""
        return tokens / self.prefill_tokens_per_s * (1 + (start + tokens / 2) / self.attention_tokens)

    def load_s(self, host_tokens: int, storage_tokens: int) -> float:
        """Seconds of loading what is not in the GPU."""
        of_storage = self.l2_fixed_s + storage_tokens / self.l2_tokens_per_s if storage_tokens else 0.0
        return host_tokens / self.l1_tokens_per_s + of_storage


@dataclass(slots=True, eq=False)
class Generation:
    """One prompt on its way through the engine. ``answer`` is what it will generate, token by token."""

    prompt: Sequence[int]
    answer: Sequence[int]
    scope: CacheScope = field(default_factory=CacheScope)
    reads_cache: bool = True
    reannounce: bool = False
    finish_reason: str = "length"
    cached_tokens: int | None = None  # known once it was admitted
    arrived_s: float = 0.0
    computed: int = 0
    loading_s: float = 0.0  # yet to be spent, before scaling
    generated: int = 0
    table: BlockTable | None = None
    outbox: asyncio.Queue[int | None] = field(default_factory=asyncio.Queue)

    @property
    def tokens(self) -> list[int]:
        return [*self.prompt, *self.answer[: self.generated]]

    @property
    def is_done(self) -> bool:
        return self.generated >= len(self.answer)


@dataclass(slots=True)
class SchedulerStats:
    """Counters since the process started, in tokens or requests."""

    prompt_tokens: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    host_tokens: int = 0  # loaded from host memory
    storage_tokens: int = 0  # and from shared storage
    generated_tokens: int = 0
    preemptions: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0})
    ttft_s: list[float] = field(default_factory=list)


Share = tuple[Generation, int]  # a request and how many tokens of it a step computes


class Scheduler:
    """One engine's queue. ``publish`` gets the KV events of each step, once its time has passed."""

    def __init__(
        self,
        cache: BlockCache,
        speeds: Speeds,
        publish: Callable[[Sequence[KVEvent]], None],
        chunks: ChunkStore | None = None,
    ) -> None:
        self.cache = cache
        self.chunks = chunks
        self.stats = SchedulerStats()
        self.slowdown = 1.0
        self._speeds = speeds
        self._publish = publish
        self._waiting: deque[Generation] = deque()
        self._running: list[Generation] = []
        self._has_work = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()
        self.sleep_level: int | None = None  # None: awake

    def __repr__(self) -> str:
        return f"<Scheduler {self.running} running, {self.waiting} waiting, {self.cache!r}>"

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def generate(self, generation: Generation) -> AsyncGenerator[int, None]:
        """Queue a request and yield its tokens as they are computed. Leaving early aborts it."""
        self.submit(generation, now=asyncio.get_running_loop().time())
        try:
            while (token := await generation.outbox.get()) is not None:
                yield token
        finally:
            self.abort(generation)

    def submit(self, generation: Generation, *, now: float) -> None:
        """Queue a request; its tokens, then ``None``, go to its outbox. ``now``: the loop's clock."""
        generation.arrived_s = now
        self._waiting.append(generation)
        self._has_work.set()

    def abort(self, generation: Generation) -> None:
        """Stop a request wherever it is; nothing happens to one that has ended."""
        if generation in self._waiting:
            self._waiting.remove(generation)
        elif generation in self._running:
            self._leave(generation)

    def sleep(self, level: int) -> None:
        """Abort what there is, and let what comes wait. From level 1 on the cache is emptied, which is published with
        the next step, once awake.
        """
        self.sleep_level = level
        self._awake.clear()
        for generation in [*self._running, *self._waiting]:
            self.abort(generation)
            generation.finish_reason = "abort"
            generation.outbox.put_nowait(None)
        if level:
            self.cache.reset()

    def wake(self) -> None:
        """Go on."""
        self.sleep_level = None
        self._awake.set()

    async def run(self) -> None:
        """Step while there is work. Cancel to stop."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_work.wait()
            await self._awake.wait()
            shares = self.schedule()
            await asyncio.sleep(self.step_s(shares) * self._speeds.time_scale * self.slowdown)
            self.complete(shares, now=loop.time())
            if not self._running and not self._waiting:
                self._has_work.clear()

    def schedule(self) -> list[Share]:
        """Decide the next step and take the blocks for it."""
        budget = self._speeds.chunk_tokens
        shares: list[Share] = []
        preemptions = self.stats.preemptions
        for generation in list(self._running):
            if budget and generation in self._running and self._make_room(generation, budget):
                shares.append((generation, self._wanted(generation, budget)))
                budget -= shares[-1][1]
        if self.stats.preemptions > preemptions:
            return shares  # nobody is let in by throwing somebody out
        while budget and self._waiting and len(self._running) < self._speeds.max_running:
            if not self._admit(self._waiting[0], budget):
                break
            generation = self._waiting.popleft()
            self._running.append(generation)
            shares.append((generation, self._wanted(generation, budget)))
            budget -= shares[-1][1]
        return shares

    def step_s(self, shares: Sequence[Share]) -> float:
        """Seconds the step takes, before scaling."""
        seconds = self._speeds.step_s + self._speeds.sequence_s * len(shares)
        for generation, tokens in shares:
            seconds += generation.loading_s
            if generation.computed >= len(generation.prompt):
                seconds += self._speeds.context_token_s * generation.computed
            else:
                seconds += self._speeds.prefill_s(generation.computed, tokens)
        return seconds

    def complete(self, shares: Sequence[Share], *, now: float) -> None:
        """The step's time has passed: publish its events, hand out its tokens. ``now``: the loop's clock."""
        self._publish(self.cache.take_events())
        for generation, tokens in shares:
            if generation.table is None:
                continue  # aborted meanwhile
            generation.computed += tokens
            generation.loading_s = 0.0
            if generation.computed == len(generation.table.tokens):
                if self.chunks is not None and not generation.generated:
                    self.chunks.store(generation.prompt, generation.scope)
                self._sample(generation, generation.table, now)
        if self.chunks is not None:
            self._publish(self.chunks.take_events())

    def _wanted(self, generation: Generation, budget: int) -> int:
        assert generation.table is not None  # noqa: S101
        return min(budget, len(generation.table.tokens) - generation.computed)

    def _make_room(self, generation: Generation, budget: int) -> bool:
        """Blocks for a running request's next tokens, preempting the youngest one until there is room."""
        while generation.table is not None:
            if self.cache.extend(generation.table, generation.computed + self._wanted(generation, budget)):
                return True
            self._preempt(self._running[-1])
        return False

    def _admit(self, generation: Generation, budget: int) -> bool:
        tokens = generation.tokens
        table = self.cache.admit(
            tokens, generation.scope, reads_cache=generation.reads_cache, reannounce=generation.reannounce
        )
        if table is None:
            return False
        generation.table = table
        generation.computed = table.cached_tokens
        if self.chunks is not None and generation.reads_cache:
            self._load(generation, table, self.chunks)
        self.cache.extend(table, generation.computed + self._wanted(generation, budget))
        if generation.cached_tokens is None:
            generation.cached_tokens = generation.computed
            self.stats.prompt_tokens += len(generation.prompt)
            self.stats.queried_tokens += len(generation.prompt) if generation.reads_cache else 0
            self.stats.hit_tokens += table.cached_tokens
        return True

    def _load(self, generation: Generation, table: BlockTable, chunks: ChunkStore) -> None:
        """Fetch what is found beside the GPU: it need not be computed."""
        computed, from_host, from_storage = chunks.load(table.tokens, table.scope, table.cached_tokens)
        generation.computed = computed
        generation.loading_s = self._speeds.load_s(from_host, from_storage)
        if generation.cached_tokens is None:
            self.stats.host_tokens += from_host
            self.stats.storage_tokens += from_storage

    def _preempt(self, generation: Generation) -> None:
        self._running.remove(generation)
        self._release(generation)
        self._waiting.appendleft(generation)
        self.stats.preemptions += 1

    def _sample(self, generation: Generation, table: BlockTable, now: float) -> None:
        token = generation.answer[generation.generated]
        generation.generated += 1
        self.stats.generated_tokens += 1
        table.tokens.append(token)
        generation.outbox.put_nowait(token)
        if generation.generated == 1:
            self.stats.ttft_s.append(now - generation.arrived_s)
        if generation.is_done:
            self.stats.finished[generation.finish_reason] += 1
            self._leave(generation)
            generation.outbox.put_nowait(None)

    def _leave(self, generation: Generation) -> None:
        self._running.remove(generation)
        self._release(generation)

    def _release(self, generation: Generation) -> None:
        if generation.table is not None:
            self.cache.release(generation.table)
            generation.table = None
        generation.computed = 0
