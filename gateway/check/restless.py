"""Restless: whose events seem to come from one new engine process after another, faster than engines can start."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from gateway.check.symptoms import Symptom
from gateway.kv.feed_stats import FeedStats

_WITHIN_S = 10.0
_MOST = 3  # new processes in that time; an engine takes longer to load its model once


class Restless:
    """A replay port that answers for another process disproves every batch that comes, over and over again."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}  # by replica: when, and how many restarts by then

    def of(self, replica_id: str, stats: FeedStats, now: float) -> Iterator[Symptom]:
        """Call it about once a second, or oftener."""
        seen = self._seen.setdefault(replica_id, deque())
        seen.append((now, stats.restarts))
        while now - seen[0][0] > _WITHIN_S:
            seen.popleft()
        if (restarts := stats.restarts - seen[0][1]) > _MOST:
            detail = f"its replay contradicts its events: {restarts} times in {_WITHIN_S:.0f} s it seemed to be new"
            yield Symptom("replay_stale", replica_id, detail, 0.0)

    def forget_all_but(self, replica_ids: Collection[str]) -> None:
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in replica_ids}
