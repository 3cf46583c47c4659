"""The payloads, byte for byte against what vLLM sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadtest.replica.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventDialect,
    KVEvent,
    encode_batch,
)

DATA = Path(__file__).parents[2] / "data" / "events"
CAPTURED = ["01_stored_3blocks", "03_stored_cache_salt", "05_evict_then_stored", "06_cleared_then_stored"]
CAPTURED += ["09_bytes_hash_sha256_cbor", "10_session_id", "11_lora", "12_lmcache_cpu_stored", "13_lmcache_cpu_removed"]
LEGACY = {
    "legacy_v0.10.0": EventDialect.V0_10,
    "legacy_v0.10.2-0.12": EventDialect.V0_12,
    "legacy_v0.14-0.16": EventDialect.V0_16,
    "legacy_v0.18": EventDialect.V0_18,
    "legacy_v0.20": EventDialect.V0_20,
    "legacy_v0.22-0.23_array": EventDialect.V0_23,
    "legacy_v0.24plus_map": EventDialect.V0_25,
}
LEGACY_EVENTS: list[KVEvent] = [
    BlockStored((111, 222), None, tuple(range(8)), 4, extra_keys=(("salt",), None)),
    BlockRemoved((111,)),
    AllBlocksCleared(),
]


def event_of(fields: dict[str, Any]) -> KVEvent:
    """A captured event as one of ours."""
    if fields["type"] == "AllBlocksCleared":
        return AllBlocksCleared()
    if fields["type"] == "BlockRemoved":
        return BlockRemoved(tuple(fields["block_hashes"]), fields["medium"])
    return BlockStored(
        tuple(fields["block_hashes"]),
        fields["parent_block_hash"],
        tuple(fields["token_ids"]),
        fields["block_size"],
        fields["lora_id"],
        fields["lora_name"],
        tuple(tuple(keys) if keys else None for keys in fields.get("extra_keys", ())),
        fields.get("session_id"),
        fields["medium"],
    )


@pytest.mark.parametrize("name", CAPTURED)
def test_maps_are_what_vllm_sent(name: str) -> None:
    """The events of a captured payload, encoded again, are the captured bytes."""
    payload = bytes.fromhex((DATA / f"{name}.hex").read_text())
    ts, events, rank = msgspec.msgpack.decode(payload)

    assert encode_batch([event_of(event) for event in events], ts, rank, EventDialect.V0_32) == payload


@pytest.mark.parametrize("name", LEGACY)
def test_older_forms_are_those_releases_forms(name: str) -> None:
    """Each release's fields, in its order."""
    expected = json.loads((DATA / f"{name}.json").read_text())["decoded"]

    assert msgspec.msgpack.decode(encode_batch(LEGACY_EVENTS, 1.5, 0, LEGACY[name])) == expected


def test_host_memory_is_told_of_in_older_forms_too() -> None:
    """As far as a release's arrays go: without the fields of the engine's own blocks."""
    events: list[KVEvent] = [BlockStored((1,), None, (5, 6), 2, medium="cpu"), BlockRemoved((1,), "cpu")]
    payload = encode_batch(events, 0.0, 0, EventDialect.V0_23)

    assert msgspec.msgpack.decode(payload)[1] == [
        ["BlockStored", [1], None, [5, 6], 2, None, "cpu", None],
        ["BlockRemoved", [1], "cpu"],
    ]


def test_the_session_is_named_from_0_30_on() -> None:
    """An older dialect leaves a field out that it does not have."""
    stored = BlockStored((1,), None, (1, 2), 2, extra_keys=(None,), session_id="s")

    def fields(dialect: EventDialect) -> Any:
        return msgspec.msgpack.decode(encode_batch([stored], 0.0, 0, dialect))[1][0]

    assert fields(EventDialect.V0_32)["session_id"] == "s"
    assert "session_id" not in fields(EventDialect.V0_25)
