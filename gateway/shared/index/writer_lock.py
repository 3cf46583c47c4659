"""WriterLock: which process writes a replica's entries, and in which epoch. Scripts as calls, answers as words.

A lock is a key with a short life that its holder renews. What makes it safe is the epoch: it is part of the name of
every set, and the registry takes a newer one only. A holder that was asleep while another took over writes into
sets that nobody reads.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.registry import Details
from gateway.shared.link.keys import Keys
from gateway.shared.link.script import Script, ScriptCall

#: Life of a lock. A takeover comes this long after its holder's last word.
LOCK_S = 1.5
#: Life of the sets of an epoch in force: so long is a replica still believed in that nobody writes any more.
SETS_S = 5
#: Life of everything else that a writer renews, and of sets that are being filled.
ENTRY_S = 30
#: Life of the last epoch's number.
_EPOCHS_S = 30 * 86_400

_ACQUIRE = Script.load("acquire")
_REGISTER = Script.load("register")
_RENEW = Script.load("renew")
_RELEASE = Script.load("release")


class Renewal(NamedTuple):
    """``members`` of each tier's set, in the order that was asked for; none where the epoch is no longer ours."""

    held: bool
    wanted: bool
    members: Sequence[int]


class WriterLock:
    """The lock of one replica, for one process. ``lock_s``: for tests."""

    def __init__(self, keys: Keys, key: ReplicaKey, process_id: str, lock_s: float = LOCK_S) -> None:
        self._keys = keys
        self._key = key
        self._process_id = process_id
        self._lock_ms = round(lock_s * 1000)

    def acquire(self) -> ScriptCall:
        """Answered by a new epoch, or by nothing where another process holds the lock."""
        key, namespace = self._key, self._key.namespace
        keys = (self._keys.writer(key), self._keys.epochs(namespace), self._keys.registry(namespace))
        return ScriptCall(_ACQUIRE, keys, (self._process_id, key.replica_id, self._lock_ms, _EPOCHS_S))

    def register(self, epoch: int, details: Details) -> ScriptCall:
        """Answered by the epoch before (0: none), or by nothing where it is no longer ours to say."""
        keys = (self._keys.registry(self._key.namespace), self._keys.writer(self._key))
        replica = self._key.replica_id
        return ScriptCall(_REGISTER, keys, (self._process_id, replica, epoch, details.encode(), _version(), ENTRY_S))

    def renew(self, epoch: int, tiers: Sequence[Tier]) -> ScriptCall:
        """Answered by what :meth:`renewal` reads. Keeps the sets of ``tiers`` alive, too."""
        key = self._key
        sets = [self._keys.blocks(key, epoch, tier) for tier in tiers]
        keys = (self._keys.writer(key), self._keys.registry(key.namespace), self._keys.wanted(key), *sets)
        return ScriptCall(_RENEW, keys, (self._process_id, key.replica_id, epoch, self._lock_ms, ENTRY_S, SETS_S))

    def keep(self) -> ScriptCall:
        """Renew the lock alone, while an epoch is being filled that is not registered yet."""
        key = self._key
        keys = (self._keys.writer(key), self._keys.registry(key.namespace), self._keys.wanted(key))
        return ScriptCall(_RENEW, keys, (self._process_id, key.replica_id, "", self._lock_ms, ENTRY_S, SETS_S))

    def release(self, epoch: int, *, forget: bool) -> ScriptCall:
        """``forget``: the replica has left, and so do its entries."""
        keys = (self._keys.writer(self._key), self._keys.registry(self._key.namespace))
        what = "forget" if forget else "keep"
        return ScriptCall(_RELEASE, keys, (self._process_id, self._key.replica_id, epoch, what, _version()))


def renewal(answer: Sequence[int]) -> Renewal:
    """Read the answer to :meth:`WriterLock.renew`."""
    held, wanted, *members = answer
    return Renewal(bool(held), bool(wanted), members)


def _version() -> str:
    return secrets.token_hex(8)
