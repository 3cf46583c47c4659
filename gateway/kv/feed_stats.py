"""FeedStats: what one replica's feed has seen, for metrics, status and trust. Counts only ever grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState


@dataclass(slots=True)
class FeedStats:
    """Written by the Indexer alone; readers keep their hands off. Counts survive restarts of the replica."""

    state: FeedState = FeedState.BLIND
    batches: int = 0
    decoded: int = 0  # events
    dropped: Counter[str] = field(default_factory=Counter)  # events not used, by reason
    unknown_fields: int = 0
    malformed_frames: int = 0
    gaps: int = 0
    replays: int = 0  # asked for
    restarts: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # purges of what was known, by reason
    starts: int = 0  # of the feed; more than one: it failed
    last_sequence: int = -1
    since: int | None = None  # number of the first batch of the unbroken history that was applied; None: none was
    lag_s: float | None = None  # our wall clock minus the publisher's, at the last batch
    block_sizes: dict[Tier, int] = field(default_factory=dict)  # tokens
    l0_block_size: int = 0  # that of L0, which every choice asks for; 0: not seen yet

    @property
    def complete(self) -> bool:
        """Whether what was applied is all that this engine process ever published, up to ``last_sequence``."""
        return self.since == 0
