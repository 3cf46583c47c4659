"""The block cache, against a brute-force model of the same rules and against what its own events say."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import AllBlocksCleared, BlockHash, BlockRemoved, BlockStored, KVEvent

BLOCK = 4
CAPACITY = 8
Prefix = tuple[tuple[int, ...], str, str]  # tokens from the first one on, salt, LoRA

_TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=18)
_SCOPES = st.sampled_from([CacheScope(), CacheScope("s"), CacheScope(lora="ad", lora_id=1), CacheScope("s", "ad", 1)])
_CALLS = st.lists(st.tuples(_TOKENS, st.lists(st.integers(0, 1), max_size=9), _SCOPES), max_size=30)


@dataclass
class Slot:
    """A physical block of the model; ``stored`` orders copies of the same prefix by age."""

    prefix: Prefix | None = None
    stored: int = 0


@dataclass
class NaiveCache:
    """One request at a time, whole prefixes compared token by token; ``order`` is who is evicted next."""

    order: list[Slot] = field(default_factory=lambda: [Slot() for _ in range(CAPACITY)])
    clock: count[int] = field(default_factory=count)

    def serve(self, prompt: list[int], generated: list[int], scope: CacheScope) -> int:
        fed = (prompt + generated)[: len(prompt) + max(0, len(generated) - 1)]
        held: list[Slot] = []
        for blocks in range(1, (len(prompt) - 1) // BLOCK + 1):
            copies = [slot for slot in self.order if slot.prefix == self.prefix(prompt, blocks, scope)]
            if not copies:
                break
            held.append(min(copies, key=lambda slot: slot.stored))
        found = len(held)
        for slot in held:
            self.order.remove(slot)
        while len(held) * BLOCK < len(fed) and self.order:
            held.append(self.order.pop(0))
            full = len(held) * BLOCK <= len(fed)
            held[-1].prefix = self.prefix(fed, len(held), scope) if full else None
            held[-1].stored = next(self.clock)
        tail_first = held[::-1]
        unhashed = [slot for slot in tail_first if slot.prefix is None]
        self.order = unhashed + self.order + [slot for slot in tail_first if slot.prefix is not None]
        return found * BLOCK

    def resident(self) -> Counter[Prefix]:
        return Counter(slot.prefix for slot in self.order if slot.prefix is not None)

    @staticmethod
    def prefix(tokens: list[int], blocks: int, scope: CacheScope) -> Prefix:
        return tuple(tokens[: blocks * BLOCK]), scope.cache_salt, scope.lora


def resident(cache: BlockCache) -> Counter[Prefix]:
    """What the cache says it holds, in the model's terms."""
    held: Counter[Prefix] = Counter()
    for row in cache.resident_prefixes().values():
        tokens = struct.unpack(f"<{len(row.tokens) // 4}I", row.tokens)
        held[(tokens, row.cache_salt, row.lora)] = row.copies
    return held


def follow(copies: Counter[BlockHash], events: list[KVEvent]) -> None:
    """Apply events the way any consumer that counts copies would."""
    for event in events:
        if isinstance(event, AllBlocksCleared):
            copies.clear()
        elif isinstance(event, BlockStored):
            assert len(event.token_ids) == len(event.block_hashes) * event.block_size
            copies.update(event.block_hashes)
        else:
            copies.subtract(event.block_hashes)
            assert min(copies.values()) >= 0


@given(_CALLS)
def test_is_the_brute_force_model(calls: list[tuple[list[int], list[int], CacheScope]]) -> None:
    """After any requests, hits and content are those of the naive model."""
    cache, model = BlockCache(CAPACITY, BLOCK), NaiveCache()
    for prompt, generated, scope in calls:
        assert cache.serve(prompt, generated, scope) == model.serve(prompt, generated, scope)
        assert resident(cache) == model.resident()
        assert cache.used_blocks == 0


@given(_CALLS, st.sets(st.integers(0, 29)))
def test_events_tell_the_whole_truth(calls: list[tuple[list[int], list[int], CacheScope]], resets: set[int]) -> None:
    """Whoever counts stored and removed copies knows exactly what is in the cache."""
    cache, copies = BlockCache(CAPACITY, BLOCK), Counter[BlockHash]()
    for number, (prompt, generated, scope) in enumerate(calls):
        if number in resets:
            assert cache.reset()
        cache.serve(prompt, generated, scope)
        follow(copies, cache.take_events())
        assert +copies == {hash_: row.copies for hash_, row in cache.resident_prefixes().items()}


def test_a_block_is_stored_on_top_of_its_parent() -> None:
    """Blocks of a step are one event; a follow-up stores only what is new, with the parent's hash."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(range(10))
    cache.serve(range(13))

    first, second = cache.take_events()

    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert (first.parent_block_hash, first.token_ids) == (None, tuple(range(8)))
    assert (second.parent_block_hash, second.token_ids) == (first.block_hashes[-1], (8, 9, 10, 11))


def test_generated_tokens_fill_blocks_but_the_last_one_is_never_fed() -> None:
    """Decoding publishes blocks, and 4 + 4 tokens are one block: the last token has no KV yet."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve([1, 2, 3, 4], [5, 6, 7, 8])

    assert [event.token_ids for event in cache.take_events() if isinstance(event, BlockStored)] == [(1, 2, 3, 4)]
    assert cache.serve([1, 2, 3, 4, 5, 6, 7, 8, 9]) == 4


def test_a_full_hit_stores_a_copy_and_each_copy_is_removed() -> None:
    """A prompt of whole blocks computes its last one again: one BlockStored and one BlockRemoved for each copy."""
    cache = BlockCache(CAPACITY, BLOCK)
    for _ in range(3):
        cache.serve(range(8))
    stored = [event for event in cache.take_events() if isinstance(event, BlockStored)]

    cache.serve(range(100, 132))
    removed = [event.block_hashes for event in cache.take_events() if isinstance(event, BlockRemoved)]

    last = stored[0].block_hashes[-1]
    assert [event.block_hashes for event in stored] == [stored[0].block_hashes, (last,), (last,)]
    assert sorted(removed) == sorted([(last,)] * 3 + [(stored[0].block_hashes[0],)])


def test_evicts_tail_first_one_event_a_block_before_the_store() -> None:
    """Making room for eight blocks removes the old ones one by one, deepest first, then stores."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(range(CAPACITY * BLOCK))
    (stored,) = cache.take_events()
    assert isinstance(stored, BlockStored)

    cache.serve(range(100, 100 + CAPACITY * BLOCK))
    *removed, last = cache.take_events()

    assert removed == [BlockRemoved((hash_,)) for hash_ in reversed(stored.block_hashes)]
    assert isinstance(last, BlockStored)


def test_extra_keys_are_the_lora_everywhere_and_the_salt_once() -> None:
    """As vLLM sends them: untagged, the adapter on each block, the salt on the first."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(range(9), scope=CacheScope("salt", "ad", 1, "sess"))

    (stored,) = cache.take_events()

    assert isinstance(stored, BlockStored)
    assert stored.extra_keys == (("ad", "salt"), ("ad",))
    assert (stored.lora_id, stored.lora_name, stored.session_id) == (1, "ad", "sess")


def test_a_lora_and_a_salt_of_the_same_name_do_not_share_blocks() -> None:
    """Salted, adapted and plain prompts are three chains."""
    cache = BlockCache(CAPACITY, BLOCK)
    hits = [cache.serve(range(5), scope=scope) for scope in (CacheScope(), CacheScope("x"), CacheScope(lora="x"))]

    assert hits == [0, 0, 0]


def test_reannouncement_repeats_what_was_found_and_changes_nothing() -> None:
    """The blocks found are one event from the root; the cache holds what it held."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(range(9))
    (stored,) = cache.take_events()
    before = cache.resident_prefixes()

    table = cache.admit(list(range(9)), reannounce=True)
    assert table is not None
    cache.extend(table, 9)
    cache.release(table)

    assert cache.take_events() == [stored]
    assert cache.resident_prefixes() == before


def test_a_request_that_does_not_read_the_cache_still_fills_it() -> None:
    """As with prompt_logprobs: no hit, and a second copy of every block."""
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(range(9))
    table = cache.admit(list(range(9)), reads_cache=False)
    assert table is not None
    cache.extend(table, 9)

    assert table.cached_tokens == 0
    assert {row.copies for row in cache.resident_prefixes().values()} == {2}


def test_running_requests_keep_their_blocks() -> None:
    """What a request holds is neither evicted nor cleared, and shared blocks are held until the last one leaves."""
    cache = BlockCache(CAPACITY, BLOCK)
    first, second = cache.admit(list(range(9))), cache.admit(list(range(9)))
    assert first is not None
    assert second is not None
    cache.extend(first, 9)

    assert not cache.reset()
    assert cache.admit(list(range(100, 124))) is None
    assert cache.used_blocks == 3
    cache.release(first)
    assert cache.reset()


def test_hashes_are_ints_or_whole_digests_and_follow_the_seed() -> None:
    """Equal seeds give equal hashes, other seeds others; on request all 32 bytes."""

    def hashes(seed: bytes, *, bytes_hashes: bool = False) -> tuple[BlockHash, ...]:
        cache = BlockCache(CAPACITY, BLOCK, seed=seed, bytes_hashes=bytes_hashes)
        cache.serve(range(5))
        (stored,) = cache.take_events()
        assert isinstance(stored, BlockStored)
        return stored.block_hashes

    assert hashes(b"a") == hashes(b"a") != hashes(b"b")
    (whole,) = hashes(b"a", bytes_hashes=True)
    assert isinstance(whole, bytes)
    assert hashes(b"a") == (int.from_bytes(whole[-8:], "big"),)


def test_a_prompt_larger_than_the_cache_is_refused() -> None:
    """Nothing hangs and nothing leaks."""
    cache = BlockCache(2, BLOCK)

    with pytest.raises(ValueError, match="do not fit"):
        cache.serve(range(100))
    assert cache.used_blocks == 0
