"""OwnerMasks: block hash -> who owns it, as a bitmask with one bit an owner.

Owns the bits and the dictionaries. Does not know replicas, tiers or tokens.

The dictionary is cut into shards by hash. No step walks more than a few of them, so that forgetting an
owner of a million blocks never stops the event loop; and a shard that grows re-hashes a thousandth of the
whole.

An owner is forgotten at once and for free: its bit is retired, and nothing that asks for live bits sees it
any more. The entries are cleaned up a shard at a time by whoever writes next, and only after all of them
are clean is the bit given out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_SHARDS = 512  # a power of two
_SHARD_MASK = _SHARDS - 1
_SWEPT_PER_WRITE = 2
_SWEPT_PER_RETIREMENT = 8
_INTERNED_MASKS = 8192


class Run(NamedTuple):
    """Owners (bits) of the first ``blocks`` blocks of a chain, and not of the next."""

    owners: int
    blocks: int


class OwnerMasks:
    """All methods are synchronous, and cost what they are given plus a few shards of clean-up."""

    def __init__(self) -> None:
        self._shards: list[dict[int, int]] = [{} for _ in range(_SHARDS)]
        self._blocks: dict[int, int] = {}  # live bit -> how many blocks carry it
        self._live = 0
        self._free: list[int] = []
        self._bits_made = 0
        self._retired = 0  # bits to be swept
        self._sweeping = 0  # bits being swept
        self._cursor = 0  # next shard of that walk
        self._interned: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<OwnerMasks {len(self._blocks)} owners of {self.owned_blocks()} blocks>"

    def new_owner(self) -> int:
        """A bit of its own for somebody who owns nothing yet."""
        if self._free:
            bit = self._free.pop()
        else:
            bit = 1 << self._bits_made
            self._bits_made += 1
        self._blocks[bit] = 0
        self._live |= bit
        return bit

    def retire(self, bit: int) -> None:
        """Forget an owner. The bit means nothing from now on."""
        blocks = self._blocks.pop(bit)
        self._live &= ~bit
        if blocks:
            self._retired |= bit
        else:
            self._free.append(bit)
        self.sweep(_SWEPT_PER_RETIREMENT)

    def blocks_of(self, bit: int) -> int:
        """How many blocks an owner owns."""
        return self._blocks[bit]

    def owned_blocks(self) -> int:
        """Pairs of block and live owner."""
        return sum(self._blocks.values())

    def owners(self, block: int) -> int:
        """The live owners of one block."""
        return self._shards[block & _SHARD_MASK].get(block, 0) & self._live

    def add(self, bit: int, blocks: Iterable[int]) -> None:
        """Make ``bit`` an owner of ``blocks``. Idempotent."""
        shards, interned = self._shards, self._interned
        added = 0
        for block in blocks:
            shard = shards[block & _SHARD_MASK]
            mask = shard.get(block)
            if mask is None:
                shard[block] = bit
                added += 1
            elif not mask & bit:
                mask |= bit
                shard[block] = interned.setdefault(mask, mask)  # equal masks are one object
                added += 1
        self._blocks[bit] += added
        if len(interned) > _INTERNED_MASKS:
            interned.clear()
        self.sweep(_SWEPT_PER_WRITE)

    def remove(self, bit: int, blocks: Iterable[int]) -> None:
        """``bit`` owns ``blocks`` no longer. Idempotent."""
        removed = 0
        for block in blocks:
            shard = self._shards[block & _SHARD_MASK]
            mask = shard.get(block, 0)
            if mask & bit:
                removed += 1
                if mask == bit:
                    del shard[block]
                else:
                    shard[block] = mask & ~bit
        self._blocks[bit] -= removed
        self.sweep(_SWEPT_PER_WRITE)

    def disown(self, blocks: Iterable[int]) -> None:
        """Nobody owns ``blocks`` any longer."""
        for block in blocks:
            mask = self._shards[block & _SHARD_MASK].pop(block, 0) & self._live
            while mask:
                bit = mask & -mask
                self._blocks[bit] -= 1
                mask ^= bit

    def sweep(self, shards: int) -> bool:
        """Clean up to ``shards`` shards of retired bits; whether anything is left to do."""
        for _ in range(shards):
            if not self._sweeping:
                if not self._retired:
                    return False
                self._sweeping, self._retired, self._cursor = self._retired, 0, 0
            self._sweep_shard(self._shards[self._cursor])
            self._cursor += 1
            if self._cursor == _SHARDS:
                self._free.extend(_bits(self._sweeping))
                self._sweeping = 0
        return bool(self._sweeping or self._retired)

    def _sweep_shard(self, shard: dict[int, int]) -> None:
        swept = self._sweeping
        for block in [block for block, mask in shard.items() if mask & swept]:
            mask = shard[block] & ~swept
            if mask:
                shard[block] = mask
            else:
                del shard[block]

    def gallop(self, chain: Sequence[int], wanted: int) -> list[Run]:
        """How long a prefix of ``chain`` each of ``wanted`` owns; who does not own its first block is left
        out.

        Exact as long as whoever owns a block owns all before it in the chain. Costs a few probes for each
        distinct length, not one for each block. Where ownership has holes the answer may be too long: it says
        only that the block after the run is not owned, and that the run's last block and the probed ones are.
        """
        runs: list[Run] = []
        shards, end = self._shards, len(chain)
        good = 0  # blocks that all of `alive` own
        alive = wanted
        while alive and good < end:
            step, bad, held = 1, end + 1, 0
            while good < end:  # double the step until somebody drops out
                probe = good + step
                if probe > end:  # noqa: PLR1730 - a call of min takes as long as the rest of the step
                    probe = end
                block = chain[probe - 1]
                held = shards[block & _SHARD_MASK].get(block, 0) & alive
                if held != alive:
                    bad = probe
                    break
                good = probe
                step += step
            if bad > end:
                break
            while bad - good > 1:  # then halve towards the first block that somebody lacks
                probe = (good + bad) // 2
                block = chain[probe - 1]
                now_held = shards[block & _SHARD_MASK].get(block, 0) & alive
                if now_held == alive:
                    good = probe
                else:
                    bad, held = probe, now_held
            if good:
                runs.append(Run(alive & ~held, good))
            alive, good = held, bad
        if alive and good:
            runs.append(Run(alive, good))
        return runs

    def walk(self, chain: Sequence[int], wanted: int, shared: OwnerMasks | None = None) -> list[Run]:
        """As :meth:`gallop`, block by block and so always exact. What anybody owns in ``shared`` all own."""
        runs: list[Run] = []
        alive = wanted
        for position, block in enumerate(chain):
            if shared is not None and shared.owners(block):
                continue
            held = self._shards[block & _SHARD_MASK].get(block, 0) & alive
            if held != alive:
                if position:
                    runs.append(Run(alive & ~held, position))
                alive = held
                if not alive:
                    break
        if alive and chain:
            runs.append(Run(alive, len(chain)))
        return runs


def _bits(mask: int) -> list[int]:
    return [1 << position for position in range(mask.bit_length()) if mask >> position & 1]
