"""The layout that others use, to measure against: a hash for each block, its fields the replicas that hold it.

Written by pipelines of HSET and HDEL, read by one pipeline of HGETALL, a command a block. Not a PrefixIndex: it has
neither tiers nor epochs, and forgetting a replica would take a walk over all keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command

_COMMANDS_PER_PIPELINE = 5_000


class NaiveIndex:
    """Replicas by id."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def write(self, replica_id: str, stored: Iterable[int], removed: Iterable[int]) -> None:
        commands: list[Command] = [("HSET", _name(block), replica_id, "1") for block in stored]
        commands += [("HDEL", _name(block), replica_id) for block in removed]
        for at in range(0, len(commands), _COMMANDS_PER_PIPELINE):
            await self._link.run_all(commands[at : at + _COMMANDS_PER_PIPELINE])

    async def match(self, chain: Sequence[int], replica_ids: Collection[str]) -> dict[str, int]:
        """How many blocks of the chain's beginning each replica holds."""
        owners = await self._link.run_all([("HGETALL", _name(block)) for block in chain])
        held, left = dict.fromkeys(replica_ids, 0), set(replica_ids)
        for fields in owners:
            left &= {field.decode() for field in list(fields)[::2]} if isinstance(fields, list) else set()
            for replica_id in left:
                held[replica_id] += 1
            if not left:
                break
        return held


def _name(block: int) -> str:
    return f"block:{block}"
