"""What the index costs: matching, ingest and memory. ``python -m benchmarks.kv``, about half a minute.

One process, medians. To hold: 20-50 us for a match of 2,048 blocks, 300k blocks/s of ingest, below 120 bytes a
block-owner for ownership and counts and below 300 with the resolver. :mod:`gateway.kv.index_budget` goes by the memory.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from statistics import median
from time import perf_counter

import msgspec

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import decode
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.ownership import Ownership
from gateway.kv.routed import Routed
from gateway.kv.tiers import Tier

_BLOCKS_PER_REPLICA = 32_768
_BLOCK_TOKENS = 16
_PROMPT_BLOCKS = 125
_INGESTED = 40_000


def main() -> None:
    """Print a table for each question."""
    _match()
    _ingest()
    _memory()


def _match() -> None:
    print("match, us: one replica holds all of the prompt, one 60 %, one in four a quarter, the others none of it")
    for replicas in (8, 64):
        index, keys, chain = _filled_index(replicas)
        for blocks in (128, 512, 2048):
            took = _match_s(index, keys, chain[:blocks])
            print(f"  {replicas:3} replicas x {_BLOCKS_PER_REPLICA} blocks, {blocks:5} blocks: {took * 1e6:7.1f}")
        miss = [random.getrandbits(64) for _ in range(2048)]
        print(f"  {replicas:3} replicas, nothing matches: {_match_s(index, keys, miss) * 1e6:7.1f}")


def _match_s(index: MemoryIndex, keys: list[ReplicaKey], chain: list[int]) -> float:
    chains = {_BLOCK_TOKENS: chain}
    took: list[float] = []
    for _ in range(400):
        begun = perf_counter()
        index.match_now(chains, keys)
        took.append(perf_counter() - begun)
    return median(took)


def _filled_index(replicas: int) -> tuple[MemoryIndex, list[ReplicaKey], list[int]]:
    rng = random.Random(7)
    index = MemoryIndex()
    chain = [rng.getrandbits(64) for _ in range(2048)]
    keys = [ReplicaKey("model", f"replica-{number}") for number in range(replicas)]
    for number, key in enumerate(keys):
        share = {0: 1.0, 1: 0.6}.get(number, 0.25 if number % 4 == 0 else 0.0)
        own = chain[: int(share * len(chain))]
        others = [rng.getrandbits(64) for _ in range(_BLOCKS_PER_REPLICA - len(own))]
        index.begin(key, {Tier.L0: own + others})
    return index, keys, chain


def _ingest() -> None:
    print("ingest: decode + own hashes + ownership + index; each block stored evicts another, an event of its own")
    for blocks, evict, label in (
        (_PROMPT_BLOCKS, False, "prompts of 125 blocks, nothing evicted"),
        (_PROMPT_BLOCKS, True, "prompts of 125 blocks"),
        (1, True, "decoding, a batch a block"),
    ):
        rounds = [_blocks_per_s(list(payloads(blocks, _INGESTED, seed, evict=evict))) for seed in range(5)]
        print(f"  {label}: {median(rounds):9,.0f} blocks/s")


def _blocks_per_s(batches: list[bytes]) -> float:
    _, applier = _applier()
    begun = perf_counter()
    for payload in batches:
        applier.apply(decode(payload))
    return _INGESTED / (perf_counter() - begun)


def _applier() -> tuple[MemoryIndex, Applier]:
    key, index = ReplicaKey("model", "a"), MemoryIndex()
    index.begin(key, {})
    applier = Applier(key, index, secret=b"secret", block_size_seen=lambda *_: None)
    return index, applier


def payloads(blocks_per_event: int, total: int, seed: int, *, evict: bool = True) -> Iterator[bytes]:
    """Batches as vLLM 0.32 sends them: evictions, then a store on top of what is there, in chains of 500 blocks."""
    rng = random.Random(seed)
    held: list[int] = []
    parent: int | None = None
    for done in range(0, total, blocks_per_event):
        if done % 500 < blocks_per_event:
            parent = None
        hashes = [rng.getrandbits(64) for _ in range(blocks_per_event)]
        stored = _stored(hashes, parent, rng)
        removed = [_removed(held.pop(0)) for _ in range(blocks_per_event)] if evict and len(held) > 8192 else []
        held += hashes
        parent = hashes[-1]
        yield msgspec.msgpack.encode([1.0, [*removed, stored], 0])


def _stored(hashes: list[int], parent: int | None, rng: random.Random) -> dict[str, object]:
    return {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": parent,
        "token_ids": [rng.randrange(150_000) for _ in range(_BLOCK_TOKENS * len(hashes))],
        "block_size": _BLOCK_TOKENS,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * len(hashes),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def _removed(hash_: int) -> dict[str, object]:
    return {"type": "BlockRemoved", "block_hashes": [hash_], "medium": "GPU", "group_idx": 0}


def _memory() -> None:
    print("memory, bytes a block-owner, one owner a block; dictionaries grow in steps, so at several sizes")
    for blocks in (100_000, 150_000, 200_000, 250_000):
        batches = list(payloads(_PROMPT_BLOCKS, blocks, 1, evict=False))
        gc.collect()
        tracemalloc.start()
        kept = _applier()
        for payload in batches:
            kept[1].apply(decode(payload))
        gc.collect()
        everything = tracemalloc.get_traced_memory()[0] / blocks
        tracemalloc.stop()
        counts = _index_and_counts_bytes(blocks)
        sent = _sent_bytes(blocks)
        print(
            f"  {blocks:7} blocks: index and counts {counts:6.1f}, with the resolver {everything:6.1f};"
            f" sent where no events tell {sent:6.1f}"
        )


def _index_and_counts_bytes(blocks: int) -> float:
    tracemalloc.start()
    key, index, ownership = ReplicaKey("model", "a"), MemoryIndex(), Ownership()
    index.begin(key, {})
    for _ in range(0, blocks, 1000):
        ownership.add([random.getrandbits(64) for _ in range(1000)])
        index.apply(key, Tier.L0, ownership.take_changes().stored, ())
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] / blocks
    tracemalloc.stop()
    return used


def _sent_bytes(blocks: int) -> float:
    tracemalloc.start()
    key, routed = ReplicaKey("model", "a"), Routed(default_capacity=blocks * _BLOCK_TOKENS)
    for _ in range(0, blocks, _PROMPT_BLOCKS):
        chain = [random.getrandbits(64) for _ in range(_PROMPT_BLOCKS)]
        routed.end(routed.add(key, {_BLOCK_TOKENS: chain}, now=0.0), now=0.0, keep=True)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] / blocks
    tracemalloc.stop()
    return used


if __name__ == "__main__":
    main()
