"""BlockCache: vLLM's prefix cache, block by block, with exactly the events it would publish.

Pure and synchronous: tokens go in, events come out of :meth:`BlockCache.take_events`. Does not know time,
sockets, text or scheduling. Rules as in vLLM 0.32 ``v1/core/block_pool.py`` and ``kv_cache_manager.py``:

1. Only full blocks are cached, and they are cached when they are scheduled.
2. A lookup never takes the block that holds the last token. That block is computed again, so the same hash
   can have several physical copies, each stored once and removed once.
3. A request's blocks are freed tail first. Blocks without a hash are reused first, then the least recently
   used ones.
4. Every block reused while it has a hash is one BlockRemoved, before the BlockStored it made room for.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadtest.replica.kv_events import (
    AllBlocksCleared,
    BlockHash,
    BlockRemoved,
    BlockStored,
    ExtraKeys,
    KVEvent,
)


@dataclass(frozen=True, slots=True)
class CacheScope:
    """What besides its tokens makes a block its own: salt and LoRA, and the session its events name."""

    cache_salt: str = ""
    lora: str = ""
    lora_id: int | None = None
    session_id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CachedPrefix:
    """A hash's meaning: a block's tokens (uint32, little-endian) on top of its parent's."""

    hash: BlockHash
    digest: bytes
    parent: CachedPrefix | None = field(repr=False)
    tokens: bytes
    scope: CacheScope

    def ancestry(self) -> Iterator[CachedPrefix]:
        """This prefix, then its parent, and so on to the root."""
        prefix: CachedPrefix | None = self
        while prefix is not None:
            yield prefix
            prefix = prefix.parent


class ResidentPrefix(NamedTuple):
    """One cached hash, told in the terms of whoever asked: all tokens from the first one on."""

    tokens: bytes
    cache_salt: str
    lora: str
    copies: int


@dataclass(slots=True, eq=False)
class Block:
    """One physical block. ``prefix`` is set while its content can be found."""

    index: int
    references: int = 0
    prefix: CachedPrefix | None = None


@dataclass(slots=True, eq=False)
class BlockTable:
    """One request's hold on the cache: its tokens so far and the blocks that hold them."""

    tokens: list[int]
    scope: CacheScope
    cached_tokens: int
    blocks: list[Block] = field(default_factory=list)
    full_blocks: int = 0
    tail: CachedPrefix | None = None


class BlockCache:
    """A fixed pool of blocks. ``capacity_blocks`` are usable: vLLM's ``num_gpu_blocks`` is one more."""

    def __init__(
        self,
        capacity_blocks: int,
        block_size: int,
        *,
        seed: bytes = b"",
        bytes_hashes: bool = False,
        is_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """``is_on``: whether prefixes are cached at this moment."""
        self.capacity_blocks = capacity_blocks
        self.block_size = block_size
        self.evictions = 0  # of hashed blocks, to make room
        self._is_on = is_on
        self._root = hashlib.sha256(b"root" + seed).digest()
        self._bytes_hashes = bytes_hashes
        blocks = [Block(index) for index in range(capacity_blocks)]
        self._free: OrderedDict[int, Block] = OrderedDict((block.index, block) for block in blocks)
        self._by_hash: dict[BlockHash, dict[int, Block]] = {}
        self._events: list[KVEvent] = []

    def __repr__(self) -> str:
        return f"<BlockCache {self.used_blocks}/{self.capacity_blocks} in use, {len(self._by_hash)} hashes>"

    @property
    def used_blocks(self) -> int:
        """Blocks that running requests hold; cached blocks nobody holds count as free."""
        return self.capacity_blocks - len(self._free)

    def serve(self, prompt: Sequence[int], generated: Sequence[int] = (), scope: CacheScope = CacheScope()) -> int:
        """One request from its start to its end; returns the prompt tokens found in the cache.

        Raises ``ValueError`` where the pool cannot hold it. For callers without a scheduler.
        """
        table = self.admit(prompt, scope)
        if table is None or not self.extend(table, len(prompt)):
            raise ValueError(f"{len(prompt)} tokens do not fit into {self!r}")
        for token in generated:
            table.tokens.append(token)
            if not self.extend(table, len(table.tokens) - 1):
                break
        self.release(table)
        return table.cached_tokens

    def admit(
        self,
        tokens: Sequence[int],
        scope: CacheScope = CacheScope(),
        *,
        reads_cache: bool = True,
        reannounce: bool = False,
    ) -> BlockTable | None:
        """Look a request's prefix up and hold what is found; ``None`` while the whole request does not fit.

        ``reannounce``: publish the blocks found as if stored (vLLM's ``kv_cache_report_mode=full``).
        """
        found = self._longest_prefix(tokens, scope) if reads_cache and self._is_on() else []
        if reannounce and found:
            self._announce([_prefix_of(block) for block in found], scope)
        needed = self._blocks_for(len(tokens)) - sum(block.references > 0 for block in found)
        if needed > len(self._free):
            return None
        for block in found:
            self._free.pop(block.index, None)
            block.references += 1
        tail = found[-1].prefix if found else None
        return BlockTable(list(tokens), scope, len(found) * self.block_size, list(found), len(found), tail)

    def extend(self, table: BlockTable, computed: int) -> bool:
        """Make room for ``computed`` tokens and cache the blocks they fill. ``False``: no room, no change."""
        missing = self._blocks_for(computed) - len(table.blocks)
        if missing > len(self._free):
            return False
        table.blocks.extend(self._take() for _ in range(missing))
        stored: list[CachedPrefix] = []
        while (table.full_blocks + 1) * self.block_size <= computed:
            if not self._is_on():
                break
            stored.append(self._cache_next(table))
        if stored:
            self._announce(stored, table.scope)
        return True

    def release(self, table: BlockTable) -> None:
        """Let go of a request's blocks. Their content stays until they are needed."""
        unhashed: list[Block] = []
        for block in reversed(table.blocks):
            block.references -= 1
            if block.references:
                continue
            self._free[block.index] = block
            if block.prefix is None:
                unhashed.append(block)
        for block in reversed(unhashed):
            self._free.move_to_end(block.index, last=False)
        table.blocks.clear()

    def reset(self) -> bool:
        """Forget all content. ``False`` while a request holds a block."""
        if self.used_blocks:
            return False
        self.lose()
        self._events.append(AllBlocksCleared())
        return True

    def lose(self) -> None:
        """Forget the content of all blocks that nobody holds, and tell nobody."""
        for block in self._free.values():
            if block.prefix is not None:
                self._forget(block, block.prefix.hash)

    def take_events(self) -> list[KVEvent]:
        """The events since the last call, in order: one step's batch."""
        events, self._events = self._events, []
        return events

    def resident_prefixes(self) -> Mapping[BlockHash, ResidentPrefix]:
        """The truth: every hash in the cache, what it stands for and how many copies there are."""
        return {hash_: _resident(blocks) for hash_, blocks in self._by_hash.items()}

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _longest_prefix(self, tokens: Sequence[int], scope: CacheScope) -> list[Block]:
        found: list[Block] = []
        parent: CachedPrefix | None = None
        for start in range(0, len(tokens) - self.block_size, self.block_size):
            parent = self._prefix(parent, tokens[start : start + self.block_size], scope)
            copies = self._by_hash.get(parent.hash)
            if copies is None:
                break
            found.append(next(iter(copies.values())))
        return found

    def _prefix(self, parent: CachedPrefix | None, tokens: Sequence[int], scope: CacheScope) -> CachedPrefix:
        packed = struct.pack(f"<{len(tokens)}I", *tokens)
        salt = scope.cache_salt if parent is None else ""
        above = parent.digest if parent else self._root
        digest = hashlib.sha256(above + packed + repr((scope.lora, salt)).encode()).digest()
        short = struct.unpack(">Q", digest[-8:])[0]
        return CachedPrefix(digest if self._bytes_hashes else short, digest, parent, packed, scope)

    def _take(self) -> Block:
        _, block = self._free.popitem(last=False)
        block.references = 1
        if block.prefix is not None:
            hash_ = block.prefix.hash
            self._forget(block, hash_)
            self.evictions += 1
            self._events.append(BlockRemoved((hash_,)))
        return block

    def _forget(self, block: Block, hash_: BlockHash) -> None:
        del self._by_hash[hash_][block.index]
        if not self._by_hash[hash_]:
            del self._by_hash[hash_]
        block.prefix = None

    def _cache_next(self, table: BlockTable) -> CachedPrefix:
        start = table.full_blocks * self.block_size
        prefix = self._prefix(table.tail, table.tokens[start : start + self.block_size], table.scope)
        block = table.blocks[table.full_blocks]
        block.prefix = prefix
        self._by_hash.setdefault(prefix.hash, {})[block.index] = block
        table.full_blocks += 1
        table.tail = prefix
        return prefix

    def _announce(self, prefixes: Sequence[CachedPrefix], scope: CacheScope) -> None:
        above = prefixes[0].parent
        tokens = b"".join(prefix.tokens for prefix in prefixes)
        self._events.append(
            BlockStored(
                block_hashes=tuple(prefix.hash for prefix in prefixes),
                parent_block_hash=above.hash if above else None,
                token_ids=struct.unpack(f"<{len(tokens) // 4}I", tokens),
                block_size=self.block_size,
                lora_id=scope.lora_id,
                lora_name=scope.lora or None,
                extra_keys=tuple(extra_keys(scope, first=prefix.parent is None) for prefix in prefixes),
                session_id=scope.session_id or None,
            )
        )


def extra_keys(scope: CacheScope, *, first: bool) -> ExtraKeys:
    """A block's extra keys as events carry them: the LoRA on every block, the salt on the first one."""
    keys = ((scope.lora,) if scope.lora else ()) + ((scope.cache_salt,) if first and scope.cache_salt else ())
    return keys or None


def _prefix_of(block: Block) -> CachedPrefix:
    assert block.prefix is not None, "only cached blocks are looked up"  # noqa: S101
    return block.prefix


def _resident(copies: Mapping[int, Block]) -> ResidentPrefix:
    prefix = _prefix_of(next(iter(copies.values())))
    tokens = b"".join(reversed([ancestor.tokens for ancestor in prefix.ancestry()]))
    return ResidentPrefix(tokens, prefix.scope.cache_salt, prefix.scope.lora, len(copies))
