"""ChunkStore: what LMCache keeps beside an engine: chunks of prompts in host memory, and in storage replicas share.

Pure and synchronous, as the block cache is. Whole chunks only, looked up from a prompt's first token on. Their hashes
are of another kind than those of the GPU's blocks, and so is their size: only the tokens join the two.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from loadtest.replica.block_cache import CacheScope
from loadtest.replica.kv_events import BlockRemoved, BlockStored, KVEvent

_HOST = "cpu"


class SharedStorage:
    """One for a whole fleet: it outlives each replica. Of itself it tells nobody anything."""

    def __init__(self) -> None:
        self.chunks: set[int] = set()


class Loading(NamedTuple):
    """``computed``: how far a prompt needs no computing any more. The rest: how much of that must be loaded first."""

    computed: int
    host_tokens: int
    storage_tokens: int


class ChunkStore:
    """``host_chunks``: how many fit into host memory, the least recently used going first; 0: there is none."""

    def __init__(
        self,
        *,
        host_chunks: int = 0,
        storage: SharedStorage | None = None,
        chunk_tokens: int = 256,
        tells_removals: bool = True,
    ) -> None:
        self.chunk_tokens = chunk_tokens
        self._host_chunks = host_chunks
        self._storage = storage
        self._tells_removals = tells_removals
        self._host: OrderedDict[int, None] = OrderedDict()  # the least recently used first
        self._events: list[KVEvent] = []

    def __repr__(self) -> str:
        return f"<ChunkStore {len(self._host)}/{self._host_chunks} chunks of {self.chunk_tokens} tokens>"

    @property
    def host_chunks(self) -> int:
        """Chunks in host memory."""
        return len(self._host)

    def load(self, tokens: Sequence[int], scope: CacheScope, cached: int) -> Loading:
        """Fetch all that is found of a prompt beyond its ``cached`` tokens, but for the last token."""
        computed, from_host, from_storage = cached, 0, 0
        end = 0
        for chunk in self._hashes(tokens[:-1], scope):
            is_in_host = chunk in self._host
            if not is_in_host and (self._storage is None or chunk not in self._storage.chunks):
                break
            end += self.chunk_tokens
            beyond = max(0, end - computed)
            computed += beyond
            if is_in_host:
                self._host.move_to_end(chunk)
                from_host += beyond
            else:
                from_storage += beyond
        return Loading(computed, from_host, from_storage)

    def store(self, tokens: Sequence[int], scope: CacheScope) -> None:
        """A prompt was computed: keep all its chunks, in both places."""
        hashes = list(self._hashes(tokens, scope))
        if self._storage is not None:
            self._storage.chunks.update(hashes)
        if self._host_chunks:
            for position, (parent, chunk) in enumerate(pairwise([None, *hashes])):
                assert chunk is not None  # noqa: S101
                self._keep(chunk, parent, tokens[position * self.chunk_tokens :][: self.chunk_tokens], scope)

    def take_events(self) -> list[KVEvent]:
        """The events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def _keep(self, chunk: int, parent: int | None, tokens: Sequence[int], scope: CacheScope) -> None:
        if chunk not in self._host:
            while len(self._host) >= self._host_chunks:
                removed, _ = self._host.popitem(last=False)
                if self._tells_removals:
                    self._events.append(BlockRemoved((removed,), medium=_HOST))
            lora = scope.lora or None
            stored = BlockStored((chunk,), parent, tuple(tokens), self.chunk_tokens, lora_name=lora, medium=_HOST)
            self._events.append(stored)
        self._host[chunk] = None
        self._host.move_to_end(chunk)

    def _hashes(self, tokens: Sequence[int], scope: CacheScope) -> Iterator[int]:
        above = repr((scope.lora, scope.cache_salt)).encode()
        for start in range(0, len(tokens) - self.chunk_tokens + 1, self.chunk_tokens):
            chunk = tokens[start : start + self.chunk_tokens]
            above = hashlib.blake2b(above + struct.pack(f"<{len(chunk)}I", *chunk), digest_size=8).digest()
            yield int.from_bytes(above, "big")
