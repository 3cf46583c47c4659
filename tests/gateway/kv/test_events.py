"""Decoding: every captured form, and whatever else may come out of a socket."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.kv.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent, decode
from gateway.prompt.blocks import pack_tokens
from tests.gateway.kv import frames


def pack(*events: object, batch: type = list) -> bytes:
    """A payload with these events, as an array or as a map."""
    if batch is dict:
        return msgspec.msgpack.encode({"ts": 1.5, "events": events, "data_parallel_rank": 0})
    return msgspec.msgpack.encode([1.5, events, 0])


def stored(**changes: object) -> dict[str, object]:
    """A BlockStored as vLLM 0.32 writes it, with changes."""
    event: dict[str, object] = {
        "type": "BlockStored",
        "block_hashes": [11, 12],
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None, None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }
    return event | changes


REMOVED = {"type": "BlockRemoved", "block_hashes": [11], "medium": "GPU", "group_idx": 0}


def expected_event(told: dict[str, Any]) -> KVEvent:
    """The event that a capture's JSON describes."""
    if told["type"] == "AllBlocksCleared":
        return AllBlocksCleared()
    hashes = [bytes.fromhex(hash_["__bytes__"]) if isinstance(hash_, dict) else hash_ for hash_ in told["block_hashes"]]
    if told["type"] == "BlockRemoved":
        return BlockRemoved(hashes, told.get("medium"), told.get("group_idx"))
    parent = told["parent_block_hash"]
    keys = told.get("extra_keys")
    return BlockStored(
        hashes,
        bytes.fromhex(parent["__bytes__"]) if isinstance(parent, dict) else parent,
        pack_tokens(told["token_ids"]),
        told["block_size"],
        told.get("medium"),
        told.get("lora_name"),
        told.get("lora_id"),
        keys if keys and any(keys) else None,
        told.get("group_idx"),
        told.get("kv_cache_spec_kind"),
        told.get("locality"),
        bool(keys),
    )


@pytest.mark.parametrize("name", frames.names("[01]*"))
def test_captured_payloads_decode_to_what_was_captured(name: str) -> None:
    """Payloads of real vLLM 0.32 replicas come out as their JSON says, with nothing dropped."""
    ts, events, rank = frames.decoded(name)

    batch = decode(frames.payload(name))

    assert list(batch.events) == [expected_event(event) for event in events]
    assert (batch.ts, batch.rank, dict(batch.dropped), batch.unknown_fields) == (ts, rank, {}, 0)


@pytest.mark.parametrize("name", frames.names("legacy_*"))
def test_every_older_release_is_understood(name: str) -> None:
    """Arrays or maps, with more or fewer fields: the same three events come out."""
    batch = decode(frames.payload(name))

    store, remove, clear = batch.events
    assert isinstance(store, BlockStored)
    assert (store.hashes, store.parent, store.block_size) == ([111, 222], None, 4)
    assert store.tokens == pack_tokens(range(8))
    assert isinstance(remove, BlockRemoved)
    assert remove.hashes == [111]
    assert isinstance(clear, AllBlocksCleared)
    assert store.medium == (None if name == "legacy_v0.10.0" else "GPU")
    assert not batch.dropped


@pytest.mark.parametrize("batch", [list, dict])
def test_arrays_and_maps_may_be_mixed(batch: type) -> None:
    """One batch with events of both forms, as an array or a map, gives both."""
    array = ["BlockRemoved", [11], "GPU", 0]

    assert decode(pack(REMOVED, array, batch=batch)).events == [BlockRemoved([11], "GPU", 0)] * 2


def test_a_bad_event_costs_only_itself() -> None:
    """Events around one that cannot be read are kept, and it is counted with its reason."""
    batch = decode(pack(stored(), {"type": "BlockMoved", "to": "moon"}, 7, stored(block_hashes="x"), REMOVED))

    assert [type(event) for event in batch.events] == [BlockStored, BlockRemoved]
    assert batch.dropped == {"unknown_type": 1, "malformed": 2}


def test_unknown_fields_are_counted_and_do_no_harm() -> None:
    """A field of a release to come leaves the event readable."""
    batch = decode(pack(stored(flavour="sweet", colour=1), {**REMOVED, "flavour": "sour"}))

    assert len(batch.events) == 2
    assert batch.unknown_fields == 3
    assert not batch.dropped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block_hashes": [1.5]}, "malformed"),
        ({"block_hashes": [True]}, "malformed"),
        ({"block_hashes": None}, "malformed"),
        ({"parent_block_hash": "abc"}, "malformed"),
        ({"token_ids": [[1, 2], [3, 4]]}, "bigram"),
        ({"token_ids": [-1, 2]}, "malformed"),
        ({"token_ids": [2**32]}, "malformed"),
        ({"token_ids": ["a"]}, "malformed"),
        ({"token_ids": None}, "malformed"),
        ({"block_size": -1}, "malformed"),
        ({"block_size": "2"}, "malformed"),
        ({"medium": 3}, "malformed"),
        ({"extra_keys": [None]}, "malformed"),
        ({"group_idx": "0"}, "malformed"),
    ],
)
def test_wrong_types_are_refused_by_name(changes: dict[str, object], reason: str) -> None:
    """Each field of a wrong type drops its event under a reason."""
    batch = decode(pack(stored(**changes)))

    assert not batch.events
    assert batch.dropped == {reason: 1}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        b"\x81\x80\x01",
        msgspec.msgpack.encode(None),
        msgspec.msgpack.encode([1.5]),
        msgspec.msgpack.encode([1.5, {"a": 1}, 0]),
        msgspec.msgpack.encode({"events": 3}),
        msgspec.msgpack.encode([1.5, [], "zero"]),
    ],
)
def test_what_is_no_batch_is_counted(payload: bytes) -> None:
    """A payload that cannot be opened gives no events and one count."""
    batch = decode(payload)

    assert not batch.events
    assert batch.dropped == {"malformed_batch": 1}


_JSONISH = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=8)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = sorted(stored())
_EVENTISH = (
    st.dictionaries(st.sampled_from(_FIELDS), _JSONISH).map(lambda changes: stored(**changes))
    | st.lists(_JSONISH, max_size=12).map(lambda tail: ["BlockStored", *tail])
    | _JSONISH
)


@given(st.binary(max_size=200))
@example(b"\xd7\xff" + b"\xff" * 8)
def test_no_bytes_make_it_raise(payload: bytes) -> None:
    """Whatever the bytes are, the answer is events and counts."""
    batch = decode(payload)

    assert sum(batch.dropped.values()) + len(batch.events) >= 0


@given(st.lists(_EVENTISH, max_size=5), st.sampled_from([list, dict]))
def test_every_event_is_read_or_counted(events: list[object], batch_type: type) -> None:
    """Among events of any shape none is lost without a count."""
    batch = decode(pack(*events, batch=batch_type))

    assert len(batch.events) + sum(batch.dropped.values()) == len(events)


@pytest.mark.parametrize("ts", [float("inf"), float("-inf"), float("nan"), -1e308, 1e308, -5, 2**70])
def test_an_impossible_time_is_none(ts: float) -> None:
    """A lag is computed from it, and shown."""
    assert decode(msgspec.msgpack.encode([ts if abs(ts) < 2**63 else float(ts), [], 0])).ts == 0.0


def test_a_batch_of_endless_events_is_dropped_whole() -> None:
    """Its reading would hold up everything else."""
    batch = decode(msgspec.msgpack.encode([1.0, [[]] * 100_001, 0]))

    assert (batch.events, batch.dropped) == ((), {"malformed_batch": 1})


@pytest.mark.parametrize(
    ("event", "lossy"),
    [
        ({"type": "BlockRemoved", "block_hashes": ["text"]}, True),
        ({"type": "BlockRemoved", "block_hashes": [1], "group_idx": "0"}, True),
        (["BlockRemoved", [1], 3], True),
        ({"block_hashes": [1]}, True),
        (7, True),
        ({"type": "BlockStored", "block_hashes": 3}, False),
        ({"type": "BlockMoved", "block_hashes": [1]}, False),
    ],
)
def test_what_may_have_been_a_removal_is_told(event: object, lossy: bool) -> None:
    """An unreadable removal leaves a ghost unless its reader forgets what it knew; a store or a new type does not."""
    batch = decode(msgspec.msgpack.encode([1.0, [event], 0]))

    assert (batch.events, batch.lossy) == ([], lossy)
