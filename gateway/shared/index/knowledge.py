"""Knowledge: how much a process knows of a replica, as a number, so that processes can compare.

A process that has applied all of a replica's events since batch ``n`` knows more than one that began later.
"""

from __future__ import annotations

from gateway.kv.feed_stats import FeedStats
from gateway.kv.trust import FeedState

NOTHING = 0  # it does not follow the replica, or sees nothing of it now
UNSURE = 1  # what it knows is being verified, or it knows of nothing yet
COMPLETE = 1 << 48  # everything since the engine started; less by n: everything since batch n


def knowledge(stats: FeedStats | None) -> int:
    """Of a process that follows a replica, by its feed's ``stats``; ``None``: it does not."""
    if stats is None or stats.state is FeedState.BLIND:
        return NOTHING
    return history(stats.since) if stats.state is FeedState.FRESH else UNSURE


def history(since: int | None) -> int:
    """What an unbroken history is worth that began with batch ``since``; ``None``: there is none."""
    return UNSURE if since is None else max(UNSURE, COMPLETE - since)
