"""Handover: what one follower knows of a replica, given to another process through Redis.

A publisher replays only what its buffer holds. A process that begins to follow later can never learn the rest by
itself; it takes over the state of one that knows all, and goes on from there. The state lies in a list, in pieces,
the first of which is a stamp; it appears all at once and goes after a while.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Protocol

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisRefused
from gateway.shared.link.script import Command

#: Bytes. A command that carries one takes Redis well under a millisecond.
_PIECE_BYTES = 256 << 10
#: Pieces in one pipeline.
_PIECES = 8
#: How long a state that nobody may be there to take stays.
LEFT_BEHIND_S = 600
#: How long one that was asked for stays, and how long a wish does.
ASKED_FOR_S = 30
_WISH_S = 5


class HandoverLink(Protocol):
    """What a handover needs of the link."""

    async def run(self, command: Command) -> Any: ...

    async def run_all(self, commands: Sequence[Command]) -> list[Any]: ...


class Handover:
    """All methods raise ``RedisError``."""

    def __init__(self, link: HandoverLink, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    async def give(self, key: ReplicaKey, state: bytes, life_s: int) -> None:
        """Lay ``state`` down for ``life_s`` seconds. Nobody wants it any more then."""
        final = self._keys.handover(key)
        name = f"{final}:{secrets.token_hex(4)}"
        stamp = secrets.token_hex(8)
        pieces = [state[at : at + _PIECE_BYTES] for at in range(0, len(state), _PIECE_BYTES)]
        await self._run_all([("RPUSH", name, stamp), ("EXPIRE", name, ASKED_FOR_S)])
        for at in range(0, len(pieces), _PIECES):
            await self._run_all([("RPUSH", name, piece) for piece in pieces[at : at + _PIECES]])
        await self._run_all([("RENAME", name, final), ("EXPIRE", final, life_s), ("DEL", self._keys.wanted(key))])

    def stamp(self, key: ReplicaKey) -> Command:
        """Asks which state lies there, if any."""
        return ("LINDEX", self._keys.handover(key), 0)

    def wish(self, key: ReplicaKey) -> Command:
        """Asks the replica's writer for its state. It lapses after a while."""
        return ("SET", self._keys.wanted(key), "1", "EX", _WISH_S)

    async def take(self, key: ReplicaKey, stamp: bytes) -> bytes | None:
        """The state that ``stamp`` names; ``None``: it is gone, or another lies there by now."""
        name = self._keys.handover(key)
        pieces: list[bytes] = []
        while True:
            first = len(pieces) + 1
            there, *more = await self._link.run_all(
                [self.stamp(key), *(("LINDEX", name, at) for at in range(first, first + _PIECES))]
            )
            if there != stamp:
                return None
            pieces += [piece for piece in more if piece is not None]
            if more[-1] is None:
                return b"".join(pieces)

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to :meth:`stamp` and :meth:`wish`; ``None`` where Redis refused."""
        answers = await self._link.run_all(commands)
        return [None if isinstance(answer, RedisRefused) else answer for answer in answers]

    async def _run_all(self, commands: Sequence[Command]) -> None:
        for answer in await self._link.run_all(commands):
            if isinstance(answer, RedisRefused):
                raise answer
