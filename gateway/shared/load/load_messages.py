"""What a gateway tells the others of its requests, as bytes.

An envelope is msgpack: ``[format, process id, secret id, counter, [record, ...]]``; a record ``[kind, field, ...]``.
A newer process may append fields and send kinds that are unknown here: those are skipped. Numbers have bounds, so that
nothing that is decoded can spoil a sum. No prompts, no token ids; blocks are own, keyed hashes.

Requests are numbered by the process that has them, upwards from 1, and every number is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

_FORMAT = 1  # that of the keys' schema is another number: processes of two schemas hear each other
MOST_BLOCKS = 16_384  # of one prompt, the first ones; 128 KiB
_MOST_ENVELOPE_BYTES = 256 * 1024
_LONGEST_PAYLOAD_BYTES = 512 * 1024  # nobody sends such: it is not even looked at

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Name = Annotated[str, msgspec.Meta(max_length=512)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Small = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e7)]
_Sum = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
_Blocks = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """Base of all records and their parts."""


class ReplicaName(_Record, frozen=True):
    """A replica as every gateway knows it: incarnations are counted by each for itself."""

    namespace: _Name
    server_id: _Name
    rank: _Small


class Dispatched(_Record, frozen=True, tag=1):
    """A request was sent to ``replica``."""

    number: _Number
    replica: ReplicaName
    promised_s: _Seconds
    uncached_tokens: _Small
    kv_blocks: _Blocks  # expected to be held beside those it shares
    streamed: bool
    block_size: _Small = 0  # tokens
    blocks: Annotated[bytes, msgspec.Meta(max_length=8 * MOST_BLOCKS)] = b""  # 8 bytes each; empty: not known


class FirstByte(_Record, frozen=True, tag=2):
    """Its prefill is done. What it taught, if anything: a :class:`gateway.fleet.prefill_sample.PrefillSample`.

    ``steps`` is 0 where an older process tells only how long it took, and what it predicted without calibration.
    """

    number: _Number
    actual_s: _Seconds = 0.0
    unscaled_s: _Seconds = 0.0  # 0: nothing
    tokens: _Sum = 0.0
    pairs: _Sum = 0.0
    steps: _Sum = 0.0
    l1_tokens: _Sum = 0.0
    l2_tokens: _Sum = 0.0
    decoding: _Sum = 0.0


class Ended(_Record, frozen=True, tag=3):
    """It is over. ``kept``: its blocks are expected there from now on, for want of events."""

    number: _Number
    kept: bool


class OpenRequest(_Record, frozen=True):
    """A request that is not over, in a :class:`Sync`. ``replica``: which of the sync's, counted from 0."""

    number: _Number
    replica: _Small
    age_s: _Seconds
    promised_s: _Seconds
    uncached_tokens: _Small
    kv_blocks: _Blocks
    streamed: bool
    prefilling: bool


class Sync(_Record, frozen=True, tag=4):
    """All requests numbered ``first`` to ``last`` that are not over: of these numbers there are no others."""

    first: _Number
    last: _Number
    replicas: list[ReplicaName]
    requests: list[OpenRequest]


class Left(_Record, frozen=True, tag=5):
    """The process ends and has no requests any more."""


Record = Dispatched | FirstByte | Ended | Sync | Left


class Envelope(msgspec.Struct, array_like=True, frozen=True):
    """One message of the process ``process_id``. ``counter`` grows by one with each it makes, whether sent or not."""

    format: int
    process_id: _Id
    secret_id: Annotated[str, msgspec.Meta(max_length=64)]  # which secret keys the blocks
    counter: _Number
    sealed: list[msgspec.Raw]

    def records(self) -> Iterator[Record | None]:
        """In order. ``None`` for one that cannot be read here."""
        for sealed in self.sealed:
            try:
                yield _record_decoder.decode(sealed)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                yield None


_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)
_record_decoder = msgspec.msgpack.Decoder(Record)


def decode(payload: bytes) -> Envelope:
    """Raises ``ValueError`` for whatever is no envelope of this format."""
    if len(payload) > _LONGEST_PAYLOAD_BYTES:
        raise ValueError("too long")
    try:
        envelope = _envelope_decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if envelope.format != _FORMAT:
        raise ValueError(f"of format {envelope.format}")
    return envelope


def encode(process_id: str, secret_id: str, counter: int, records: Sequence[msgspec.Raw]) -> bytes:
    """An envelope around encoded records."""
    return _encoder.encode(Envelope(_FORMAT, process_id, secret_id, counter, list(records)))


def batches(records: Iterable[Record]) -> Iterator[list[msgspec.Raw]]:
    """``records``, encoded, in order, in portions that each fit into one envelope."""
    batch: list[msgspec.Raw] = []
    size = 0
    for record in records:
        encoded = _encoder.encode(record)
        if batch and size + len(encoded) > _MOST_ENVELOPE_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(msgspec.Raw(encoded))
        size += len(encoded)
    if batch:
        yield batch
