"""KV events: one payload of a vLLM publisher, decoded whatever release wrote it.

Owns the wire format alone: bytes in, events out. Does not know sockets, sequence numbers, replicas or what an
event does to an index.

A payload is msgpack: a batch ``[ts, [event, ...], data_parallel_rank]``, or the same as a map. An event is
an array ``[type, field, ...]`` (vLLM 0.10 to 0.23) or a map ``{"type": ..., field: ...}`` (0.24 and later).
Fields came one by one and come still, so everything is read by name and whatever is not understood costs
only itself. Source: ``vllm/distributed/kv_events.py`` of the releases 0.10.0 to 0.32.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.prompt.blocks import pack_tokens

#: A publisher's name for a block: the low 64 bits of a digest, or all of it. Only ever compared for equality.
BlockHash = int | bytes


class BlockStored(NamedTuple):
    """Contiguous blocks entered a cache, on top of ``parent``; ``None``: they start a prompt."""

    hashes: Sequence[BlockHash]
    parent: BlockHash | None
    tokens: bytes  # uint32, little-endian; empty where the publisher sends hashes only
    block_size: int  # tokens; 0 where the publisher sends hashes only
    medium: str | None = None
    lora_name: str | None = None
    lora_id: int | None = None
    extra_keys: Sequence[object] | None = None  # one entry a block; None: no block has any
    group: int | None = None  # KV cache group of a hybrid model
    attention: str | None = None  # kind of that group; None: the publisher does not say
    locality: str | None = None  # "REMOTE": another host's memory
    tells_keys: bool = False  # the publisher says what besides tokens goes into blocks, also where nothing does


class BlockRemoved(NamedTuple):
    """One physical copy of each of ``hashes`` is gone."""

    hashes: Sequence[BlockHash]
    medium: str | None = None
    group: int | None = None
    locality: str | None = None  # as a store's


class AllBlocksCleared(NamedTuple):
    """The GPU cache was reset. Says nothing about other tiers."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared


class EventBatch(NamedTuple):
    """One engine step's events, in order.

    ``dropped`` counts by reason the events that could not be read; ``unknown_fields`` counts fields that
    are new to us, whose events are used all the same. ``rank`` is informative: who publishes is known from
    the socket.
    """

    ts: float  # the publisher's wall clock, seconds; 0.0: not given
    events: Sequence[KVEvent]
    rank: int | None = None
    dropped: Mapping[str, int] = {}
    unknown_fields: int = 0
    lossy: bool = False  # what could not be read may have told that blocks are gone


class _UnreadableError(Exception):
    """Carries the reason, one word, as its only argument."""


_STORED_FIELDS = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
)
_REMOVED_FIELDS = ("block_hashes", "medium", "group_idx")
_LATER_FIELDS = ("type", "locality", "ownership", "session_id")
_KNOWN_FIELDS = frozenset((*_STORED_FIELDS, *_REMOVED_FIELDS, *_LATER_FIELDS))
_ARRAY_FIELDS = {"BlockStored": _STORED_FIELDS, "BlockRemoved": _REMOVED_FIELDS, "AllBlocksCleared": ()}
_REMOVALS = frozenset(("BlockRemoved", "AllBlocksCleared"))
_HASH_TYPES = frozenset((int, bytes))
UNREADABLE = "malformed_batch"  # why a whole payload was dropped
_MOST_EVENTS = 100_000  # in a batch; an engine step has a few for each of its requests
_LAST_TS = 1e11  # far beyond any clock that counts seconds
_MSGPACK = msgspec.msgpack.Decoder()


def decode(payload: bytes) -> EventBatch:
    """Read one payload. Never raises: what cannot be read is counted in ``EventBatch.dropped``."""
    try:
        ts, raw_events, rank = _open_batch(_MSGPACK.decode(payload))
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, _UnreadableError):
        return EventBatch(0.0, (), None, {UNREADABLE: 1}, lossy=True)
    events: list[KVEvent] = []
    dropped: dict[str, int] = {}
    unknown_fields, lossy = 0, False
    for raw in raw_events:
        try:
            fields = _name_fields(raw)
            events.append(_READERS[fields["type"]](fields))
        except _UnreadableError as unreadable:
            reason = str(unreadable)
            dropped[reason] = dropped.get(reason, 0) + 1
            lossy = lossy or _may_remove(raw)
            continue
        if not fields.keys() <= _KNOWN_FIELDS:
            unknown_fields += len(fields.keys() - _KNOWN_FIELDS)
    return EventBatch(ts, events, rank, dropped, unknown_fields, lossy)


def _may_remove(event: object) -> bool:
    """Whether an unreadable event may have been a removal. One of a type that is new to us is taken for none."""
    kind = event.get("type") if isinstance(event, dict) else event[0] if isinstance(event, list) and event else None
    return not isinstance(kind, str) or kind in _REMOVALS


def _open_batch(batch: object) -> tuple[float, list[object], int | None]:
    if isinstance(batch, dict):
        batch = [batch.get("ts"), batch.get("events"), batch.get("data_parallel_rank")]
    if not isinstance(batch, list) or len(batch) < 2 or not isinstance(batch[1], list):
        raise _UnreadableError(UNREADABLE)
    if len(batch[1]) > _MOST_EVENTS:
        raise _UnreadableError(UNREADABLE)
    ts = float(batch[0]) if isinstance(batch[0], (int, float)) and 0 < batch[0] < _LAST_TS else 0.0
    return ts, batch[1], _optional_int(batch[2]) if len(batch) > 2 else None


def _name_fields(event: object) -> dict[str, Any]:
    """An event's fields by name, its ``type`` among them and known."""
    if isinstance(event, list) and event and isinstance(event[0], str):
        names = _ARRAY_FIELDS.get(event[0], ())
        event = {"type": event[0], **dict(zip(names, event[1:]))}
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise _UnreadableError("malformed")
    if event["type"] not in _READERS:
        raise _UnreadableError("unknown_type")
    return event


def _read_stored(fields: Mapping[str, Any]) -> BlockStored:
    hashes = _hashes(fields.get("block_hashes"))
    parent = fields.get("parent_block_hash")
    block_size = fields.get("block_size")
    if type(block_size) is not int or block_size < 0 or not (parent is None or type(parent) in _HASH_TYPES):
        raise _UnreadableError("malformed")
    return BlockStored(
        hashes,
        parent,
        _tokens(fields.get("token_ids")),
        block_size,
        _optional_str(fields.get("medium")),
        _optional_str(fields.get("lora_name")),
        _optional_int(fields.get("lora_id")),
        _extra_keys(fields.get("extra_keys"), len(hashes)),
        _optional_int(fields.get("group_idx")),
        _optional_str(fields.get("kv_cache_spec_kind")),
        _optional_str(fields.get("locality")),
        bool(fields.get("extra_keys")),
    )


def _read_removed(fields: Mapping[str, Any]) -> BlockRemoved:
    return BlockRemoved(
        _hashes(fields.get("block_hashes")),
        _optional_str(fields.get("medium")),
        _optional_int(fields.get("group_idx")),
        _optional_str(fields.get("locality")),
    )


def _read_cleared(_: Mapping[str, Any]) -> AllBlocksCleared:
    return AllBlocksCleared()


_READERS: Mapping[str, Callable[[Mapping[str, Any]], KVEvent]] = {
    "BlockStored": _read_stored,
    "BlockRemoved": _read_removed,
    "AllBlocksCleared": _read_cleared,
}


def _hashes(value: object) -> list[BlockHash]:
    if not isinstance(value, list) or not _HASH_TYPES.issuperset(map(type, value)):
        raise _UnreadableError("malformed")
    return value


def _tokens(value: object) -> bytes:
    if not isinstance(value, list):
        raise _UnreadableError("malformed")
    if value and isinstance(value[0], list):
        raise _UnreadableError("bigram")  # speculative decoding sends pairs; they hash to nothing of ours
    try:
        return pack_tokens(value)
    except (TypeError, OverflowError):
        raise _UnreadableError("malformed") from None


def _extra_keys(value: object, blocks: int) -> Sequence[object] | None:
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) != blocks:
        raise _UnreadableError("malformed")
    return value if any(value) else None


def _optional_str(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _UnreadableError("malformed")


def _optional_int(value: object) -> int | None:
    if value is None or type(value) is int:
        return value
    raise _UnreadableError("malformed")
