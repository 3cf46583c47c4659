"""RedisIndex: who holds what, asked of Redis in one round trip. The reading half; another process may be the writer.

A look-up names the sets of the epochs that the registry, as this process knows it, says are in force. It carries
the registry's version: where that is no longer the one in Redis, the answer is the new registry, and the look-up
is asked once more. So a reader never reads an old epoch, however late it hears of a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.block_bytes import pack_blocks
from gateway.kv.index import Chains
from gateway.kv.tiers import Tier, TierTokens
from gateway.shared.index.registry import Entry, Registry
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisUnavailable
from gateway.shared.link.script import Script, ScriptCall

_LOOKUP = Script.load("lookup")
_REGISTRY = Script.load("registry")
_ROUNDS = 2
_STALE = b"stale"
#: What one script may look at, blocks of L1 and L2 or replicas: about two milliseconds of the server's time.
_WALKED_PER_CALL = 8_000
_REPLICAS_PER_CALL = 128


class Asking(Protocol):
    """What a look-up needs of the link."""

    async def ask_all(self, calls: Sequence[ScriptCall], *, spent_s: float = 0.0) -> list[Any]: ...


class RedisIndex:
    """``secret_id`` names the hash secret in force: entries under another one are not credited."""

    def __init__(self, link: Asking, keys: Keys, *, secret_id: Callable[[], str]) -> None:
        self._link = link
        self._keys = keys
        self._secret_id = secret_id
        self._registries: dict[str, Registry] = {}
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<RedisIndex of {sum(len(registry.entries) for registry in self._registries.values())} replicas>"

    @property
    def registries(self) -> Mapping[str, Registry]:
        """By namespace."""
        return self._registries

    def entry(self, key: ReplicaKey) -> Entry | None:
        """What the registry says of a replica, whatever its incarnation; ``None``: nothing."""
        registry = self._registries.get(key.namespace)
        return None if registry is None else registry.entries.get(key.replica_id)

    def listen(self, changed: Callable[[], None]) -> None:
        """``changed`` is called after a registry was read anew."""
        self._listeners.append(changed)

    async def match(self, chains: Chains, keys: Collection[ReplicaKey]) -> Mapping[ReplicaKey, TierTokens]:
        """See :class:`~gateway.kv.index.PrefixIndex`. Raises ``RedisUnavailable``."""
        by_namespace: dict[str, list[ReplicaKey]] = {}
        for key in keys:
            if self.entry(key) is not None:
                by_namespace.setdefault(key.namespace, []).append(key)
        packed = [(size, pack_blocks(chain)) for size, chain in chains.items() if chain]
        began_s = asyncio.get_running_loop().time()
        found: dict[ReplicaKey, TierTokens] = {}
        for namespace, members in by_namespace.items():
            found.update(await self._match(namespace, packed, members, began_s))
        return found

    async def _match(
        self, namespace: str, chains: Sequence[tuple[int, bytes]], keys: Sequence[ReplicaKey], began_s: float
    ) -> dict[ReplicaKey, TierTokens]:
        clock = asyncio.get_running_loop().time
        for _ in range(_ROUNDS):
            lookups = list(self._lookups(namespace, chains, keys))
            answers = await self._link.ask_all([lookup.call for lookup in lookups], spent_s=clock() - began_s)
            stale = next((answer for answer in answers if answer and answer[0] == _STALE), None)
            if stale is None:
                return {key: tokens for lookup, answer in zip(lookups, answers) for key, tokens in lookup.read(answer)}
            self._take_over(namespace, stale[1])
        raise RedisUnavailable("the registry changes faster than it is read")

    def _lookups(
        self, namespace: str, chains: Sequence[tuple[int, bytes]], keys: Sequence[ReplicaKey]
    ) -> Iterator[_Lookup]:
        """One, or several where there is so much of L1 and L2 to look at that one would hold the server."""
        registry = self._registries[namespace]
        storage = self.storage(namespace)
        lookup = _Lookup(self._keys, registry.version, namespace, storage, chains)
        for key in keys:
            entry = registry.entries.get(key.replica_id)
            if entry is None:
                continue
            if lookup.is_full:
                yield lookup
                lookup = _Lookup(self._keys, registry.version, namespace, storage, chains)
            lookup.add(key, entry)
        yield lookup

    def storage(self, namespace: str) -> list[str]:
        """The L2 sets of all replicas of a namespace: what one stored there every one can load."""
        registry = self._registries.get(namespace) or Registry()
        return [
            self._keys.blocks_of(namespace, replica_id, entry.epoch, Tier.L2)
            for replica_id, entry in registry.storing.items()
        ]

    # The registry, read in the background

    def registry_call(self, namespace: str) -> ScriptCall:
        """Asks for a namespace's registry, if it changed. The answer goes to :meth:`registry_answered`."""
        registry = self._registries.setdefault(namespace, Registry())
        return ScriptCall(_REGISTRY, (self._keys.registry(namespace),), (registry.version,))

    def registry_answered(self, namespace: str, answer: Sequence[bytes] | None) -> None:
        """``None``: it is as it was."""
        if answer is not None:
            self._take_over(namespace, answer)

    def forget_registries(self) -> None:
        """Read everything anew: the secret changed."""
        for registry in self._registries.values():
            registry.version = b"-"

    def _take_over(self, namespace: str, fields: Sequence[bytes]) -> None:
        self._registries[namespace].read(fields, self._secret_id())
        for changed in self._listeners:
            changed()


class _Lookup:
    """One call of the script, for some replicas of a namespace."""

    def __init__(
        self, keys: Keys, version: bytes, namespace: str, storage: Sequence[str], chains: Sequence[tuple[int, bytes]]
    ) -> None:
        self.keys: list[ReplicaKey] = []
        self.walked = 0  # blocks of L1 and L2 that are looked at, at most
        self._names = keys
        self._version = version
        self._registry = keys.registry(namespace)
        self._storage = storage
        self._chains = chains
        self._blocks = sum(len(blob) // 8 for _, blob in chains)
        self._entries: list[Entry] = []
        self._l0: list[str] = []
        self._l1: list[str] = []
        self._has_l1: list[str] = []

    @property
    def is_full(self) -> bool:
        return len(self.keys) >= _REPLICAS_PER_CALL or (bool(self.keys) and self.walked > _WALKED_PER_CALL)

    def add(self, key: ReplicaKey, entry: Entry) -> None:
        self.keys.append(key)
        self._entries.append(entry)
        self._l0.append(self._names.blocks(key, entry.epoch, Tier.L0))
        has_l1 = entry.has(Tier.L1)
        self._has_l1.append("1" if has_l1 else "0")
        if has_l1:
            self._l1.append(self._names.blocks(key, entry.epoch, Tier.L1))
        self.walked += self._blocks * (2 * has_l1 + len(self._storage))

    @property
    def call(self) -> ScriptCall:
        arguments: list[str | bytes | int] = [self._version, "".join(self._has_l1), len(self._storage)]
        for size, blob in self._chains:
            arguments += (size, blob)
        return ScriptCall(_LOOKUP, (self._registry, *self._l0, *self._l1, *self._storage), arguments)

    def read(self, answer: Sequence[int]) -> Iterator[tuple[ReplicaKey, TierTokens]]:
        """The replicas whose entries are there; of the others it is noted that they are not."""
        for key, entry, l0, a1, a2 in zip(self.keys, self._entries, answer[::3], answer[1::3], answer[2::3]):
            entry.has_lapsed = l0 < 0
            if l0 >= 0:
                yield key, TierTokens(l0, _known(a1), _known(a2))


def _known(tokens: int) -> int | None:
    return None if tokens < 0 else tokens
