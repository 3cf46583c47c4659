"""What a process tells of itself."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.knowledge import COMPLETE
from gateway.shared.processes.member_record import MemberRecord, digest, replica_number

RECORD = MemberRecord(
    "0123456789abcdef",
    name="host:7",
    kind="indexer",
    version="1.2",
    strategy="kv_aware",
    orders_version=4,
    secret_id="ab12",
    replicas={replica_number(ReplicaKey("m", "a")): COMPLETE},
)


def test_it_is_read_as_it_was_written() -> None:
    """And the digest names its content."""
    assert MemberRecord.decode(RECORD.encode()) == RECORD
    assert digest(RECORD.encode()) == digest(msgspec.structs.replace(RECORD).encode())
    assert digest(RECORD.encode()) != digest(msgspec.structs.replace(RECORD, name="host:8").encode())


def test_a_newer_process_may_tell_more() -> None:
    """Fields that are not known are ignored, those that are missing have their defaults."""
    newer = msgspec.msgpack.encode({"process_id": "p", "strategy": "prefix_aware", "mood": ["good"]})

    assert MemberRecord.decode(newer) == MemberRecord("p", strategy="prefix_aware")


@given(st.binary(max_size=60))
def test_anything_else_is_a_value_error(data: bytes) -> None:
    """Whatever somebody wrote into Redis."""
    with suppress(ValueError):
        MemberRecord.decode(data)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_piece_of_a_record_is_a_value_error(cut: int) -> None:
    """Truncated anywhere."""
    with pytest.raises(ValueError, match="unreadable record"):
        MemberRecord.decode(RECORD.encode()[:-cut])


def test_a_replicas_number_outlives_its_engine() -> None:
    """It names the replica, not the incarnation; ranks and namespaces part it."""
    key = ReplicaKey("m", "a", 1, 0)

    assert replica_number(key) == replica_number(key._replace(incarnation=5)) < 2**32
    assert len({replica_number(k) for k in (key, key._replace(rank=0), key._replace(namespace="n"))}) == 3
