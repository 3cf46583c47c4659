"""ReplicaKey: the identity of one cache."""

from __future__ import annotations

from typing import NamedTuple


class ReplicaKey(NamedTuple):
    """Names one replica's cache for as long as its engine process lives.

    ``namespace`` is the base model (and cache format), never an alias or a LoRA; ``incarnation`` changes when
    the engine process does, so nothing that was known of the old process is ever believed of the new one.
    """

    namespace: str
    server_id: str
    rank: int = 0
    incarnation: int = 0

    @property
    def replica_id(self) -> str:
        """The id users see: the server's, with the rank where it is not 0."""
        return f"{self.server_id}#{self.rank}" if self.rank else self.server_id
