"""FeedStats: what one replica's feed has seen, for metrics, status and trust. Counts only ever grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.kv.tiers import Tier
from gateway.kv.trust import LATE_S, NO_DOUBT, Doubt, FeedState, judged

#: In ``removed``: more blocks than anything holds.
CLEARED = 1 << 40


@dataclass(slots=True)
class FeedStats:
    """Written by the Indexer alone, but for ``doubt``; readers keep their hands off. Counts survive restarts of the
    replica.

    Trust is what follows from the rest by :meth:`judge`: whoever changes ``state``, ``late_s`` or ``doubt`` calls it.
    """

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
    lag_s: float | None = None  # our wall clock minus the publisher's, at the last live batch
    late_s: float = 0.0  # what of it is delay, whatever the two clocks say; 0 once the stream has been silent for long
    block_sizes: dict[Tier, int] = field(default_factory=dict)  # tokens
    l0_block_size: int = 0  # that of L0, which every choice asks for; 0: not seen yet
    removed: int = 0  # blocks, of any tier, that events said were evicted; a clear counts as :data:`CLEARED`
    counts_removed: bool = True  # False: another process follows the feed, and this one hears of its state alone
    doubt: Doubt = NO_DOUBT  # what requests showed of it
    trust: float = field(init=False, default=0.0)  # 0..1
    trust_reason: str = field(init=False, default="")  # fresh, suspect or blind, and what else lowered it

    def __post_init__(self) -> None:
        self.judge()

    @property
    def is_current(self) -> bool:
        """Whether what events tell is all there is, and in time."""
        return self.state is FeedState.FRESH and self.late_s <= LATE_S

    def judge(self) -> None:
        """Let trust follow from what is known by now."""
        self.trust, self.trust_reason = judged(self.state, self.late_s, self.doubt)

    def doubted(self, doubt: Doubt) -> None:
        """Requests showed something else by now."""
        self.doubt = doubt
        self.judge()

    @property
    def complete(self) -> bool:
        """Whether what was applied is all that this engine process ever published, up to ``last_sequence``."""
        return self.since == 0
