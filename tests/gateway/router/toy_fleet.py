"""A fleet without a network: engines that only keep blocks, and tell of them, more or less truly."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.feed_stats import CLEARED, FeedStats
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.decision import Decision
from gateway.router.router import Router
from gateway.router.truth import Truth
from gateway.usage import Usage
from tests.gateway.examples import MODEL, Clock, a_pool, a_router

BLOCK_SIZE = 16


@dataclass(slots=True)
class Running:
    """A request at an engine."""

    attempt: Attempt
    prompt: list[int]
    chain: Sequence[int]
    engine: Engine
    usage: Usage | None = None


class Engine:
    """``capacity`` blocks, the least recently used going first. ``tells_removals`` may be switched off."""

    def __init__(self, replica: Replica, index: MemoryIndex, capacity: int) -> None:
        self.replica = replica
        self.stats = FeedStats(state=FeedState.FRESH, since=0, l0_block_size=BLOCK_SIZE, block_sizes={Tier.L0: 16})
        self.tells_stores = self.tells_removals = True
        self.announced: set[int] = set()
        self._index = index
        self._capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()
        index.begin(replica.key, {})

    def serve(self, prompt: list[int], chain: Sequence[int]) -> Usage:
        """Look up, compute, store."""
        held = 0
        for block in chain[: (len(prompt) - 1) // BLOCK_SIZE]:
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            held += 1
        new = [block for block in chain[held:] if block not in self._blocks]
        self._blocks.update(dict.fromkeys(reversed(new)))
        removed = []
        while len(self._blocks) > self._capacity:
            removed.append(self._blocks.popitem(last=False)[0])
        self._tell(new, removed)
        return Usage(len(prompt), 1, held * BLOCK_SIZE)

    def clear(self) -> None:
        """All blocks are gone."""
        removed = list(self._blocks)
        self._blocks.clear()
        self._tell([], removed)
        self.stats.removed += CLEARED if self.tells_removals else 0

    def _tell(self, stored: list[int], removed: list[int]) -> None:
        if self.tells_stores:
            self.announced.update(stored)
        else:
            stored = []
        if self.tells_removals:
            self.stats.removed += len(removed)
        else:
            removed = []
        self._index.apply(self.replica.key, Tier.L0, stored, removed)


class ToyFleet:
    """Engines, a router before them, and what it learns of their truth."""

    def __init__(
        self,
        servers: str = "a=http://a:1",
        *,
        capacity: int = 1000,
        strategy: str = "kv_aware",
        announces: bool = True,
        l2: L2Estimate | None = None,
    ) -> None:
        self.clock = Clock()
        self.index = MemoryIndex()
        self.pool = a_pool(servers)
        self.engines = {r.id: Engine(r, self.index, capacity) for r in self.pool.replicas}
        self.truth = Truth(self, self.announced if announces else lambda *_: None, clock=self.clock, l2=l2)
        for replica in self.pool.replicas:
            self.truth.joined(replica, None)
        self.router: Router = a_router(
            self.pool,
            clock=self.clock,
            index=self.index,
            events=self,  # type: ignore[arg-type]
            routed=Routed(),
            strategy=strategy,
            truth=self.truth,
            l2=l2,
        )

    @property
    def only(self) -> Engine:
        """Of a fleet of one."""
        (engine,) = self.engines.values()
        return engine

    def stats(self, key: ReplicaKey) -> FeedStats | None:
        return self.engines[key.server_id].stats

    def announced(self, key: ReplicaKey, tier: Tier, block: int) -> bool | None:
        return block in self.engines[key.server_id].announced

    def send(self, prompt: Sequence[int], **fields: object) -> Running:
        """Decide, and dispatch."""
        ids = list(prompt)
        body = json.dumps({"model": MODEL, "prompt": ids, **fields}).encode()
        prepared = self.router.prepare_now(InferenceRequest.parse("completions", body))
        assert prepared is not None
        attempt = self.router.attempt(prepared)
        engine = self.engines[attempt.decision.replica_id]
        return Running(attempt, ids, prepared.chains[BLOCK_SIZE], engine)

    def finish(
        self, running: Running, *, details: bool = True, usage: bool = True, miscounts: int = 0, loaded: int = 0
    ) -> Usage:
        """Let its engine serve it now, and answer. ``loaded``: tokens from the first on that it finds elsewhere."""
        served = running.engine.serve(running.prompt, running.chain)
        served = served._replace(cached_tokens=max(served.cached_tokens or 0, loaded))
        running.attempt.first_byte()
        told = Usage(served.prompt_tokens + miscounts, 1, served.cached_tokens if details else None)
        running.attempt.end(Outcome.OK, usage=told if usage else None)
        return served

    def ask(self, prompt: Sequence[int], seconds: float = 2.5, **fields: object) -> tuple[Decision, Usage]:
        """One request from beginning to end, and so much time until the next."""
        running = self.send(prompt, **fields)
        served = self.finish(running)
        self.clock.now += seconds
        return running.attempt.decision, served
