"""IndexingWatch: sees that somebody follows the events that this process leaves to others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.link.fault_log import FaultLog

_LOGGER = logging.getLogger(__name__)
#: How long a replica may be without an index before that is told of.
_PATIENCE_S = 10.0
_NAMED = 3


class IndexingWatch:
    """Call :meth:`look` now and then. ``followable``: the replicas that have events; ``is_indexed``: whether one is."""

    def __init__(
        self,
        followable: Callable[[], Collection[ReplicaKey]],
        is_indexed: Callable[[ReplicaKey], bool],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._followable = followable
        self._is_indexed = is_indexed
        self._clock = clock
        self._since_s: float | None = None  # when one was first missing
        self._faults = FaultLog(
            _LOGGER, "events that nobody indexes", "the events of all replicas are indexed", clock=clock
        )

    def look(self) -> None:
        """Tell the log of what is missing for long, and what to do."""
        missing = sorted(key.replica_id for key in self._followable() if not self._is_indexed(key))
        if not missing:
            self._since_s = None
            self._faults.works()
            return
        now = self._clock()
        self._since_s = now if self._since_s is None else self._since_s
        if now - self._since_s > _PATIENCE_S:
            names = ", ".join(missing[:_NAMED]) + (" ..." if len(missing) > _NAMED else "")
            self._faults.failed(f"{names}: run `prefixway index` for them, or set PREFIXWAY_INDEXER=inside")
