"""What LMCache would keep, find and tell of."""

from __future__ import annotations

from loadtest.replica.block_cache import CacheScope
from loadtest.replica.chunk_store import ChunkStore, Loading, SharedStorage
from loadtest.replica.kv_events import BlockRemoved, BlockStored

ANY = CacheScope()
PROMPT = list(range(10))


def _told(store: ChunkStore) -> list[tuple[str, tuple[int, ...]]]:
    """What was stored and removed, by the tokens of each chunk."""
    told = []
    for event in store.take_events():
        if isinstance(event, BlockStored):
            told.append(("stored", event.token_ids))
        elif isinstance(event, BlockRemoved):
            told.append((f"removed {len(event.block_hashes)}", ()))
    return told


def test_whole_chunks_from_the_first_on_and_never_the_last_token() -> None:
    """Ten tokens are two chunks of four; of eight the second is not loaded: it holds the last token."""
    store = ChunkStore(host_chunks=9, chunk_tokens=4)
    store.store(PROMPT, ANY)

    assert store.load(PROMPT, ANY, 0) == Loading(8, 8, 0)
    assert store.load(PROMPT, ANY, 6) == Loading(8, 2, 0)
    assert store.load(PROMPT[:8], ANY, 0) == Loading(4, 4, 0)
    assert store.load([99, *PROMPT[1:]], ANY, 0) == Loading(0, 0, 0)
    assert store.load(PROMPT, CacheScope(cache_salt="s"), 0) == Loading(0, 0, 0)


def test_chunks_are_told_of_one_by_one_and_chained() -> None:
    """With the chunk's size, its tokens and the medium; once."""
    store = ChunkStore(host_chunks=9, chunk_tokens=4)
    store.store(PROMPT, CacheScope(lora="ad"))
    one, two = store.take_events()
    store.store(PROMPT, CacheScope(lora="ad"))

    assert isinstance(one, BlockStored)
    assert isinstance(two, BlockStored)
    assert (one.parent_block_hash, two.parent_block_hash) == (None, one.block_hashes[0])
    assert (two.token_ids, two.block_size, two.medium, two.lora_name) == ((4, 5, 6, 7), 4, "cpu", "ad")
    assert store.take_events() == []
    assert "2/9 chunks" in repr(store)


def test_the_least_recently_used_chunk_goes_and_is_told_of() -> None:
    """Or not, as within an engine."""
    for tells in (True, False):
        store = ChunkStore(host_chunks=2, chunk_tokens=4, tells_removals=tells)
        store.store([1] * 4, ANY)
        store.store([2] * 4, ANY)
        store.load([1] * 5, ANY, 0)
        store.store([3] * 4, ANY)

        removed = [("removed 1", ())] if tells else []
        stored = [("stored", (number,) * 4) for number in (1, 2, 3)]
        assert _told(store) == [*stored[:2], *removed, stored[2]]
        assert [store.load([number] * 5, ANY, 0).computed for number in (1, 2, 3)] == [4, 0, 4]
        assert store.host_chunks == 2


def test_a_chunk_that_is_stored_again_is_the_most_recently_used() -> None:
    """Nothing is told of it."""
    store = ChunkStore(host_chunks=2, chunk_tokens=4)
    for number in (1, 2, 1, 3):
        store.store([number] * 4, ANY)

    assert [store.load([number] * 5, ANY, 0).computed for number in (1, 2, 3)] == [4, 0, 4]


def test_storage_is_everybodys_and_nobody_tells_of_it() -> None:
    """What one stored another loads, beside what is in its own host memory."""
    storage = SharedStorage()
    one, two = (ChunkStore(host_chunks=hosts, storage=storage, chunk_tokens=4) for hosts in (0, 1))
    one.store(PROMPT, ANY)
    two.store(PROMPT[:4], ANY)

    assert one.take_events() == []
    assert two.load(PROMPT, ANY, 0) == Loading(8, 4, 4)
    assert ChunkStore(chunk_tokens=4).load(PROMPT, ANY, 0) == Loading(0, 0, 0)
