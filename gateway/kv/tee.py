"""Tee: an IndexWriter that tells several."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.index import IndexWriter
from gateway.kv.tiers import Tier


class Tee:
    """Each writer is told all of it, in the order they were given."""

    def __init__(self, *writers: IndexWriter) -> None:
        self._writers = writers

    def __repr__(self) -> str:
        return f"<Tee of {', '.join(map(repr, self._writers))}>"

    def apply(self, key: ReplicaKey, tier: Tier, stored: Collection[int], removed: Collection[int]) -> None:
        """See :class:`IndexWriter`."""
        for writer in self._writers:
            writer.apply(key, tier, stored, removed)

    def clear(self, key: ReplicaKey, tier: Tier) -> None:
        """See :class:`IndexWriter`."""
        for writer in self._writers:
            writer.clear(key, tier)

    def begin(self, key: ReplicaKey, snapshot: Mapping[Tier, Collection[int]]) -> None:
        """See :class:`IndexWriter`."""
        for writer in self._writers:
            writer.begin(key, snapshot)

    def drop(self, key: ReplicaKey) -> None:
        """See :class:`IndexWriter`."""
        for writer in self._writers:
            writer.drop(key)
