"""Every form of events since vLLM 0.10, mixed as no fleet would mix them: the index is what the content says."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.applier import Applier
from gateway.kv.events import BlockStored as DecodedStore
from gateway.kv.events import decode
from gateway.kv.memory_index import MemoryIndex
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from loadtest.replica.block_cache import BlockCache, CacheScope
from loadtest.replica.kv_events import BlockStored, EventDialect, KVEvent, encode_batch
from loadtest.replica.publisher import EventPublisher
from tests.fakes.waiting import eventually
from tests.gateway.kv import frames
from tests.gateway.kv.recovery_rig import BLOCK, PLAIN, Engine, gateway, prompt

KEY = ReplicaKey("tiny", "a")
SECRET = b"secret"
CAPACITY = 12  # blocks
SCOPES = [PLAIN, CacheScope("salt"), CacheScope(lora="ad", lora_id=1), CacheScope("salt", "ad", 1)]
NAMED = [dialect for dialect in EventDialect if dialect.minor >= 18]  # releases that tell all of a scope
JUNK: list[object] = [
    ["BlockMoved", [1], "MOON"],
    {"type": "BlockPinned", "block_hashes": [1]},
    {"type": "BlockStored", "block_hashes": "all", "parent_block_hash": None, "token_ids": [], "block_size": 4},
    ["BlockStored", [5], None, [[1, 2]] * 4, 4, None],
    ["BlockStored", [5, 6], None, [1, 2, 3, 4], 4, None],
    ["BlockStored", [5], 2**64 - 1, [1, 2, 3, 4], 4, None],
    ["BlockStored", [5], None, [1, -2, 3, 4], 4, None],
    {"no": "type"},
    {"type": ["BlockRemoving"]},
    ["BlockRemoved", [2**64 - 1], "GPU", 0],
]  # none of which may have told of a removal of ours


def own_blocks(tokens: bytes, block_size: int, lora: str = "", salt: str = "") -> list[int]:
    """Our own hashes of a prefix."""
    return extend_chain(chain_root(SECRET, "tiny", lora, salt, block_size), tokens, block_size)


class Reader:
    """Payloads on their way into an index."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        self.applier = Applier(KEY, self.index, secret=SECRET, block_size_seen=lambda *_: None)
        self.index.begin(KEY, {})
        self.dropped: Counter[str] = Counter()
        self.unknown_fields = 0

    def read(self, payload: bytes) -> None:
        batch = decode(payload)
        self.unknown_fields += batch.unknown_fields
        self.dropped.update(batch.dropped)
        self.dropped.update(self.applier.apply(batch))

    def held(self, tier: Tier = Tier.L0) -> set[int]:
        """What the applier owns, which is what the index holds."""
        owned = set(self.applier.owned().get(tier, ()))
        assert self.index.owned(KEY, tier) == len(owned)
        assert all(self.index.holds(KEY, tier, block) for block in owned)
        return owned


def disguise(payload: bytes, *, as_map: bool, junk: Iterable[tuple[int, object]] = (), field: str = "") -> bytes:
    """The same content with the batch as a map, junk between its events, or an unknown field in each that is a map."""
    ts, events, rank = msgspec.msgpack.decode(payload)
    for event in events:
        if field and isinstance(event, dict):
            event[field] = {"to": ["come"]}
    for where, event in junk:
        events.insert(where % (len(events) + 1), event)
    batch = {"ts": ts, "events": events, "data_parallel_rank": rank} if as_map else [ts, events, rank]
    return msgspec.msgpack.encode(batch)


# The same content


def a_history(*, bytes_hashes: bool) -> list[list[KVEvent]]:
    """Batches with stores from the root and on top of others, copies, evictions and a reset."""
    cache = BlockCache(CAPACITY, BLOCK, bytes_hashes=bytes_hashes)
    batches: list[list[KVEvent]] = []
    for path in ((9, 9, 9), (0, 0, 0, 0), (0, 0, 1), (0, 1), (1, 0, 0, 0), (2, 0, 0, 0), (0, 0, 2)):
        if path == (0, 0, 0, 0):
            cache.reset()
        cache.serve(prompt(*path), generated=[5] * 3)
        cache.serve(prompt(*path)[:-1])  # whole blocks: the last one is computed again
        batches.append(cache.take_events())
    return batches


@pytest.mark.parametrize("as_map", [False, True])
@pytest.mark.parametrize("dialect", EventDialect)
@pytest.mark.parametrize("bytes_hashes", [False, True])
def test_the_same_content_in_every_encoding_gives_the_same_index(
    dialect: EventDialect, bytes_hashes: bool, as_map: bool
) -> None:
    """Fields, forms of events and batches, and kinds of hashes are the publisher's affair."""
    plain, other = Reader(), Reader()
    for events in a_history(bytes_hashes=False):
        plain.read(encode_batch(events, 1.0, 0, EventDialect.V0_32))
    for events in a_history(bytes_hashes=bytes_hashes):
        other.read(disguise(encode_batch(events, 1.0, 0, dialect), as_map=as_map))

    assert other.held() == plain.held()
    assert len(plain.held()) > 8
    assert (other.dropped, other.unknown_fields) == ({}, 0)


def test_what_a_release_cannot_name_is_left_out() -> None:
    """A LoRA by number alone means nothing to anybody else, and is counted."""
    reader = Reader()
    cache = BlockCache(CAPACITY, BLOCK)
    cache.serve(prompt(0, 0), scope=CacheScope(lora="ad", lora_id=1))
    reader.read(encode_batch(cache.take_events(), 1.0, 0, EventDialect.V0_12))

    assert (reader.held(), reader.dropped) == (set(), {"unnamed_lora": 1})


@pytest.mark.parametrize("name", frames.names("legacy_*"))
def test_all_older_payloads_mean_the_same_blocks(name: str) -> None:
    """After others in other forms, too. Each payload ends with a removal and a reset, so its store is read alone."""
    reader = Reader()
    for each in [*frames.names("legacy_*"), name]:
        reader.read(frames.payload(each))
        assert (reader.held(), reader.dropped) == (set(), {})
    batch = decode(frames.payload(name))
    (store,) = (event for event in batch.events if isinstance(event, DecodedStore))
    reader.applier.apply(batch._replace(events=[store]))

    salt = "salt" if store.extra_keys else ""
    assert reader.held() == set(own_blocks(pack_tokens(range(8)), 4, salt=salt))


# Mixed


@dataclass
class Mixed:
    """One engine's steps, each to be told in a form of its own."""

    cache: BlockCache
    rooted: Counter[int] = field(default_factory=Counter)

    def step(self) -> list[KVEvent]:
        events = self.cache.take_events()
        for event in events:
            if isinstance(event, BlockStored) and event.parent_block_hash is None:
                salt = next((key for key in event.extra_keys[0] or () if key != event.lora_name), "")
                self.rooted.update(own_blocks(pack_tokens(event.token_ids), BLOCK, event.lora_name or "", salt))
        return events

    @property
    def resident(self) -> set[int]:
        return {
            own_blocks(each.tokens, BLOCK, each.lora, each.cache_salt)[-1]
            for each in self.cache.resident_prefixes().values()
        }


_STEPS = st.tuples(
    st.lists(st.integers(0, 1), min_size=1, max_size=5),
    st.sampled_from(SCOPES),
    st.sampled_from([0, 0, 0, 1]),  # tokens that are left out at the end: 1 makes a copy of the last block
    st.sampled_from(NAMED),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(JUNK)), max_size=3),
    st.sampled_from(["", "", "x_new"]),
    st.sampled_from([False] * 9 + [True]),
)


@given(steps=st.lists(_STEPS, max_size=25), bytes_hashes=st.booleans())
@settings(max_examples=150)
def test_any_stream_in_any_mixture_is_what_its_engine_holds(steps: list[Any], bytes_hashes: bool) -> None:
    """Bad events cost themselves, unknown fields nothing. A block whose store from the root was repeated may be
    missing after a removal."""
    engine, reader = Mixed(BlockCache(CAPACITY, BLOCK, bytes_hashes=bytes_hashes)), Reader()
    bad = 0
    for path, scope, left_out, dialect, as_map, junk, new_field, reset in steps:
        if reset:
            engine.cache.reset()
        engine.cache.serve(prompt(*path)[: -left_out or None], scope=scope)
        payload = encode_batch(engine.step(), 1.0, 0, dialect)
        reader.read(disguise(payload, as_map=as_map, junk=junk, field=new_field))
        bad += len(junk)
        assert reader.held() <= engine.resident
        assert all(engine.rooted[block] > 1 for block in engine.resident - reader.held())
    assert reader.dropped.total() == bad


# Captured


def stream(name: str) -> Iterator[tuple[int, bytes]]:
    """Numbered payloads of one socket, in order; number 0 is another engine process."""
    path = Path(frames.__file__).parents[2] / "data" / "events" / "streams" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        for line in lines:
            batch = json.loads(line)
            yield batch["seq"], bytes.fromhex(batch["payload"])


class PlainReading:
    """What a stream says is held, by medium, read without any of the gateway's own code but its hashes."""

    def __init__(self) -> None:
        self.prefix: dict[tuple[str, int], tuple[list[int], str, str]] = {}  # tokens from the start, LoRA, salt
        self.copies: dict[str, Counter[int]] = {"GPU": Counter(), "CPU": Counter()}
        self.size = {"GPU": 0, "CPU": 0}
        self.group: int | None = None

    def read(self, payload: bytes) -> None:
        for event in msgspec.msgpack.decode(payload)[1]:
            getattr(self, event["type"])(event)

    def BlockStored(self, event: Mapping[str, Any]) -> None:
        medium, size = event["medium"], event["block_size"]
        if event.get("kv_cache_spec_kind", "full_attention") != "full_attention":
            return
        if medium == "GPU":
            self.group = event["group_idx"]
        above = event["parent_block_hash"]
        lora = event["lora_name"] or ""
        salt = next((key for key in (event.get("extra_keys") or [None])[0] or () if key != lora), "")
        tokens, lora, salt = ([], lora, salt) if above is None else self.prefix[medium, above]
        self.size[medium] = size
        for position, hash_ in enumerate(event["block_hashes"]):
            tokens = tokens + event["token_ids"][position * size : (position + 1) * size]
            self.prefix[medium, hash_] = tokens, lora, salt
            once = above is None or medium == "CPU"
            self.copies[medium][hash_] = 1 if once else self.copies[medium][hash_] + 1

    def BlockRemoved(self, event: Mapping[str, Any]) -> None:
        for hash_ in event["block_hashes"]:
            if event["medium"] == "CPU" or event["group_idx"] == self.group:
                self.copies[event["medium"]][hash_] -= 1

    def AllBlocksCleared(self, _: Mapping[str, Any]) -> None:
        self.copies["GPU"].clear()

    def held(self, medium: str) -> set[int]:
        prefixes = [self.prefix[medium, hash_] for hash_, copies in self.copies[medium].items() if copies > 0]
        return {own_blocks(pack_tokens(tokens), self.size[medium], lora, salt)[-1] for tokens, lora, salt in prefixes}


@pytest.mark.parametrize("name", ["replica_a", "replica_b", "rank_0", "rank_1", "hybrid"])
def test_captured_streams_equal_a_plain_reading_of_them(name: str) -> None:
    """Hours of real replicas, one process after the other: salts, LoRAs, copies, evictions, resets, sessions, bytes for
    hashes, LMCache's chunks and a hybrid model. After each batch both tiers are the same."""
    most = 0
    for sequence, payload in stream(name):
        if sequence == 0:
            reader, plain = Reader(), PlainReading()
        reader.read(payload)
        plain.read(payload)
        assert reader.held() == plain.held("GPU")
        assert reader.held(Tier.L1) == plain.held("CPU")
        assert reader.dropped.keys() <= {"attention_kind"}
        most = max(most, len(reader.held()))
    assert most > 1


async def test_two_replicas_of_a_model_may_be_of_different_releases() -> None:
    """Each is read in its own form, at the same time."""
    async with EventPublisher(dialect=EventDialect.V0_10) as old, EventPublisher(dialect=EventDialect.V0_32) as new:
        engines = [Engine(old), Engine(new)]
        async with gateway(engines[0]) as here:
            here.identify("a", {0: engines[0].source, 1: engines[1].source})
            for each in engines:
                each.serve((0, 0), (0, 1), (1, 0))
            for replica, each in zip(here.pool.replicas, engines):
                await eventually(lambda: here.held(replica.key) == each.resident)  # noqa: B023
