"""The three KV events a vLLM replica publishes, and every form that a release wrote them in.

Owns the wire format of one payload. Does not know sockets, sequence numbers or when an event happens.
The forms follow the struct definitions of the releases named in :class:`EventDialect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

#: Low 64 bits of a digest as an int, or the whole digest: whatever the publisher was told to send.
BlockHash = int | bytes
ExtraKeys = tuple[str, ...] | None

MEDIUM = "GPU"
ATTENTION_KIND = "full_attention"


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Contiguous full blocks entered the cache. ``token_ids`` are exactly those blocks' tokens."""

    block_hashes: tuple[BlockHash, ...]
    parent_block_hash: BlockHash | None
    token_ids: tuple[int, ...]
    block_size: int
    lora_id: int | None = None
    lora_name: str | None = None
    extra_keys: tuple[ExtraKeys, ...] = ()
    session_id: str | None = None
    medium: str = MEDIUM


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """One physical copy of each of these blocks was evicted."""

    block_hashes: tuple[BlockHash, ...]
    medium: str = MEDIUM


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The prefix cache was reset."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared


class EventDialect(Enum):
    """A release whose form of the events to speak: events are arrays up to 0.23, maps from 0.24 on."""

    V0_10 = (10, "array")
    V0_12 = (12, "array")
    V0_16 = (16, "array")
    V0_18 = (18, "array")
    V0_20 = (20, "array")
    V0_23 = (23, "array")
    V0_25 = (25, "map")
    V0_32 = (32, "map")

    def __init__(self, minor: int, form: str) -> None:
        self.minor = minor
        self.form = form

    @property
    def replays_topic(self) -> bool:
        """Whether a replay reply carries the topic frame (from 0.26 on)."""
        return self.minor >= 26


def encode_batch(events: Sequence[KVEvent], ts: float, rank: int, dialect: EventDialect) -> bytes:
    """One payload: msgpack ``[ts, events, data_parallel_rank]``. ``ts`` is seconds since the epoch."""
    encode = _as_map if dialect.form == "map" else _as_array
    return msgspec.msgpack.encode([ts, [encode(event, dialect.minor) for event in events], rank])


def _as_map(event: KVEvent, minor: int) -> dict[str, object]:
    if isinstance(event, AllBlocksCleared):
        return {"type": "AllBlocksCleared"}
    if isinstance(event, BlockRemoved):
        of_removed: dict[str, object] = {"block_hashes": list(event.block_hashes), "medium": event.medium}
        return {"type": "BlockRemoved", **of_removed, **({"group_idx": 0} if event.medium == MEDIUM else {})}
    fields: dict[str, object] = {
        "type": "BlockStored",
        "block_hashes": list(event.block_hashes),
        "parent_block_hash": event.parent_block_hash,
        "token_ids": list(event.token_ids),
        "block_size": event.block_size,
        "lora_id": event.lora_id,
        "medium": event.medium,
        "lora_name": event.lora_name,
    }
    if event.medium == MEDIUM:  # LMCache, which tells of its chunks by the same stream, knows no more
        fields |= {"extra_keys": list(event.extra_keys), "group_idx": 0, "kv_cache_spec_kind": ATTENTION_KIND}
    if event.session_id is not None and minor >= 30:
        fields["session_id"] = event.session_id
    return fields


#: Fields of an array in order, each with the 0.x release that brought it.
_STORED_TAIL_SINCE = (12, 16, 18, 20, 23, 23)
_REMOVED_TAIL_SINCE = (12, 20)


def _as_array(event: KVEvent, minor: int) -> list[object]:
    if isinstance(event, AllBlocksCleared):
        return ["AllBlocksCleared"]
    if isinstance(event, BlockRemoved):
        removed_tail = _known_by(minor, _REMOVED_TAIL_SINCE, (event.medium, 0)[: _told_of(event.medium, 2, 1)])
        return ["BlockRemoved", list(event.block_hashes), *removed_tail]
    tail: Sequence[object] = (event.medium, event.lora_name, list(event.extra_keys), 0, ATTENTION_KIND, None)
    return [
        "BlockStored",
        list(event.block_hashes),
        event.parent_block_hash,
        list(event.token_ids),
        event.block_size,
        event.lora_id,
        *_known_by(minor, _STORED_TAIL_SINCE, tail[: _told_of(event.medium, 6, 2)]),
    ]


def _told_of(medium: str, engine: int, lmcache: int) -> int:
    """How many of an event's last fields whoever keeps that medium tells."""
    return engine if medium == MEDIUM else lmcache


def _known_by(minor: int, since: Sequence[int], fields: Sequence[object]) -> list[object]:
    return [field for release, field in zip(since, fields) if minor >= release]
