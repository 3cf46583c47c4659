"""Confirmations: whether events told of what prompts left in a replica's cache, soon after their end.

A replica that computes a prompt stores its blocks and says so. Where it does not, or where what it says is of other
blocks than ours (another template, a salt that is left out, a LoRA under another name), nothing is ever confirmed,
and the prefix is never found again though every request is answered.

Synchronous, and told the time. Bounded: while too many wait, further prompts are not asked about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier

GRACE_S = 2.0
MOST_WAITING = 2_048

#: Whether a replica's events ever told of a block, by own hash; ``None``: nobody here follows them.
Announced = Callable[[ReplicaKey, Tier, int], bool | None]


class Confirmation(NamedTuple):
    """``told``: whether events told of a block of a prompt of this ``kind``: plain, salted or lora."""

    key: ReplicaKey
    kind: str
    told: bool


class _Awaited(NamedTuple):
    due_s: float
    key: ReplicaKey
    block: int
    kind: str


class Confirmations:
    """``grace_s``: how long events may take after the end of a request."""

    def __init__(self, announced: Announced, *, grace_s: float = GRACE_S, most: int = MOST_WAITING) -> None:
        self._announced = announced
        self._grace_s = grace_s
        self._most = most
        self._waiting: deque[_Awaited] = deque()  # the soonest first

    def __repr__(self) -> str:
        return f"<Confirmations {len(self._waiting)} waiting>"

    def expect(self, key: ReplicaKey, block: int, kind: str, now: float) -> None:
        """A prompt ended that left this new block, by own hash, in the GPU cache of ``key``."""
        if len(self._waiting) < self._most:
            self._waiting.append(_Awaited(now + self._grace_s, key, block, kind))

    def due(self, now: float) -> list[Confirmation]:
        """Those whose time has come; without those of replicas that nobody here follows by now."""
        found: list[Confirmation] = []
        waiting = self._waiting
        while waiting and waiting[0].due_s <= now:
            _, key, block, kind = waiting.popleft()
            told = self._announced(key, Tier.L0, block)
            if told is not None:
                found.append(Confirmation(key, kind, told))
        return found
