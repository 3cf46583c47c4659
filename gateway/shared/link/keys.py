"""Keys: the names of everything that lies in Redis.

``pw:v1:{namespace}:...``: the braces put all of a namespace into one slot of a cluster. The number is the schema's:
processes of two schemas live side by side and never read each other's keys.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier

#: Changes whenever an older process could misread what a newer one writes.
SCHEMA = 1

_SAFE = "/:@._-+~"  # everything else, braces above all, is percent-encoded


class Keys:
    """``prefix`` parts fleets that share a Redis."""

    def __init__(self, prefix: str = "pw", schema: int = SCHEMA) -> None:
        self.schema = schema
        self._prefix = quote(prefix, _SAFE)
        self._base = f"{self._prefix}:v{schema}"
        self._replica_of = lru_cache(maxsize=4096)(self._name_replica)  # every look-up names them all

    def registry(self, namespace: str) -> str:
        """HASH: which replicas have an index, and in which epoch."""
        return f"{self._of(namespace)}:registry"

    def epochs(self, namespace: str) -> str:
        """The last epoch that was given out."""
        return f"{self._of(namespace)}:epochs"

    def blocks(self, key: ReplicaKey, epoch: int, tier: Tier) -> str:
        """SET: own hashes of the blocks a replica holds."""
        return self.blocks_of(key.namespace, key.replica_id, epoch, tier)

    def blocks_of(self, namespace: str, replica_id: str, epoch: int, tier: Tier) -> str:
        """The same, of a replica that is known by its id alone."""
        return f"{self._replica_of(namespace, replica_id)}:{epoch}:l{int(tier)}"

    def writer(self, key: ReplicaKey) -> str:
        """The writer lock: which process writes a replica's entries."""
        return self.writer_of(key.namespace, key.replica_id)

    def writer_of(self, namespace: str, replica_id: str) -> str:
        """The same, of a replica that is known by its id alone."""
        return f"{self._replica_of(namespace, replica_id)}:writer"

    # Of all processes whatever their schema: what lies there tells its format itself.

    def wanted(self, key: ReplicaKey) -> str:
        """Set while some process wants to take over what the writer knows of a replica."""
        return f"{self._lasting_replica(key)}:wanted"

    def handover(self, key: ReplicaKey) -> str:
        """LIST: what a follower knows of a replica, in pieces, for another one to go on from."""
        return f"{self._lasting_replica(key)}:handover"

    def fleet(self, name: str) -> str:
        """Of the whole fleet: members, records, orders, secret, load."""
        return f"{self._prefix}:{{fleet}}:{name}"

    def _lasting_replica(self, key: ReplicaKey) -> str:
        return f"{self._prefix}:{_slot(key.namespace)}:r:{quote(key.replica_id, _SAFE)}"

    def _of(self, namespace: str) -> str:
        return f"{self._base}:{_slot(namespace)}"

    def _replica(self, key: ReplicaKey) -> str:
        return self._replica_of(key.namespace, key.replica_id)

    def _name_replica(self, namespace: str, replica_id: str) -> str:
        return f"{self._of(namespace)}:r:{quote(replica_id, _SAFE)}"


def _slot(namespace: str) -> str:
    """What keeps all keys of a namespace on one server of a cluster."""
    return f"{{ns={quote(namespace, _SAFE)}}}"
