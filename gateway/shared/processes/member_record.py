"""MemberRecord: what a process tells the others of itself."""

from __future__ import annotations

from typing import Self

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from gateway.fleet.replica_key import ReplicaKey


class MemberRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Fields that a newer process adds are ignored; what is empty or negative was not told."""

    process_id: str
    name: str = ""  # host:pid, for people
    kind: str = "gateway"  # or "indexer"
    version: str = ""
    strategy: str = ""  # in force
    orders_version: int = -1
    secret_id: str = ""
    schema: int = 0  # of the keys it writes
    leaving: bool = False  # it is about to end
    replicas: dict[int, int] = {}  # knowledge of those it can follow, by replica_number

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ``ValueError``."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError("unreadable record") from error


def digest(record: bytes) -> str:
    """Names one record's content, 16 letters and digits."""
    return xxh3_64_hexdigest(record)


def replica_number(key: ReplicaKey) -> int:
    """32 bits that stand for a replica in records, whatever its incarnation.

    Two of 1,000 replicas share one with a chance of 1 in 10,000; then each seems to be as well known as the other.
    """
    return xxh3_64_intdigest(f"{key.namespace}/{key.replica_id}".encode()) & 0xFFFFFFFF
