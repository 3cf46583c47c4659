"""Knowledge: what this process believes of the fleet, for the checks to compare with what replicas really do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.check.busyness import PATIENCE_S
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.event_following import EventFollowing
from gateway.kv.feed_stats import FeedStats
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain
from gateway.prompt.encoder import PromptEncoder

_DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Knowledge:
    """``encoder``: of a base model; ``None``: not looked for yet. ``events_wanted``: whether events are to be followed
    at all. ``clock``: seconds, monotonic. ``patience_s``: how long a replica that has work waiting is waited for.
    """

    pool: ReplicaPool
    events: EventFollowing
    memory: MemoryIndex
    secret: Callable[[], bytes]
    encoder: Callable[[str], PromptEncoder | None]
    events_wanted: bool
    clock: Callable[[], float]
    patience_s: float = PATIENCE_S

    def stats(self, replica: Replica) -> FeedStats | None:
        """Of the events that this process follows; ``None``: it follows none of this replica."""
        return self.events.stats(replica.key)

    def block_size(self, replica: Replica) -> int:
        """Tokens of a block in its GPU, as its events tell, else its metrics."""
        stats = self.stats(replica)
        return (stats and stats.l0_block_size) or replica.report.block_size or _DEFAULT_BLOCK_SIZE

    def chain(self, replica: Replica, tokens: bytes, *, lora: str = "", salt: str = "") -> list[int]:
        """Own hashes of the full blocks of ``tokens``, as the prompt of a request there."""
        size = self.block_size(replica)
        return extend_chain(chain_root(self.secret(), replica.key.namespace, lora, salt, size), tokens, size)

    def announced(self, replica: Replica, block: int) -> bool:
        """Whether its events, as followed here, ever told of a block of its GPU."""
        return bool(self.events.indexer.announced(replica.key, Tier.L0, block))

    def holds(self, replica: Replica, block: int) -> bool:
        """Whether the index says that its GPU holds a block."""
        return self.memory.holds(replica.key, Tier.L0, block)
