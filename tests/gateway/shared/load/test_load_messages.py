"""Messages of load: read back as they were written, and nothing that comes can do harm."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shared.load.load_messages import (
    Dispatched,
    Ended,
    Envelope,
    FirstByte,
    Left,
    OpenRequest,
    Record,
    ReplicaName,
    Sync,
    batches,
    decode,
    encode,
)

A = ReplicaName("tiny", "a", 0)
RECORDS: list[Record] = [
    Dispatched(1, A, 0.5, 1000, 17.5, True, 16, b"8 bytes.or 16...."[:16]),
    FirstByte(1),
    FirstByte(1, 0.5, 0.25, 100.0, 5e3, 1.0, 20.0, 0.0, 3.0),
    Ended(1, True),
    Sync(0, 2, [A], [OpenRequest(2, 0, 0.25, 0.5, 1000, 17.5, False, True)]),
    Left(),
]
_FIRST_BYTE = (2, 5, 0.5, 0.25, 100.0, 5e3, 1.0, 20.0, 0.0, 3.0)


def _payload(records: list[Record]) -> bytes:
    (batch,) = batches(records)
    return encode("p1", "s1", 7, batch)


def _odd(*records: object) -> Envelope:
    """An envelope of a process that writes what it likes."""
    return decode(msgspec.msgpack.encode([1, "p1", "s1", 7, records]))


def test_are_read_as_they_were_written() -> None:
    """Every kind of record, and the envelope around."""
    envelope = decode(_payload(RECORDS))

    assert (envelope.process_id, envelope.secret_id, envelope.counter) == ("p1", "s1", 7)
    assert list(envelope.records()) == RECORDS


def test_a_newer_process_may_say_more() -> None:
    """Fields it appended are not seen, kinds it added are skipped, what is known is used."""
    envelope = decode(
        msgspec.msgpack.encode([1, "p1", "s1", 7, [[*_FIRST_BYTE, "new"], [99, {}], [3, 5, False, 1]], "new", {}])
    )

    assert list(envelope.records()) == [FirstByte(*_FIRST_BYTE[1:]), None, Ended(5, False)]


def test_an_older_process_says_less() -> None:
    """Of a prefill only its seconds, or nothing."""
    told = _odd([2, 5, 0.5, 0.25], [2, 5])

    assert list(told.records()) == [FirstByte(5, 0.5, 0.25, steps=0.0), FirstByte(5)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e300, "1", None])
def test_numbers_that_would_spoil_the_books_are_not_read(value: object) -> None:
    """Neither as promised seconds nor as blocks nor as an age."""
    name = ["tiny", "a", 0]
    envelope = _odd(
        [1, 5, name, value, 10, 1.0, True],
        [1, 5, name, 0.1, 10, value, True],
        [4, 0, 9, [name], [[5, 0, value, 0.1, 10, 1.0, True, True]]],
        *([*_FIRST_BYTE[:place], value, *_FIRST_BYTE[place + 1 :]] for place in range(2, len(_FIRST_BYTE))),
    )

    assert set(envelope.records()) == {None}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x95\x01\xa1p\xa1s\x07\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgspec.msgpack.encode([2, "p1", "s1", 7, []]),
        msgspec.msgpack.encode([1, "p" * 65, "s1", 7, []]),
        msgspec.msgpack.encode([1, "p1", "s1", -1, []]),
        msgspec.msgpack.encode([1, "p1", "s1", 7, [b"x" * 600_000]]),
    ],
)
def test_what_is_no_envelope_of_ours_is_a_value_error(payload: bytes) -> None:
    """Cut, nested without end, of another format, with a name too long, too long itself."""
    with pytest.raises(ValueError):  # noqa: PT011 - the text is for people
        decode(payload)


def test_deep_nesting_in_a_record_costs_only_the_record() -> None:
    """It cannot be read, and the next one can."""
    deep: object = 1
    for _ in range(500):
        deep = [deep]

    assert list(_odd([2, deep], [2, 5]).records()) == [None, FirstByte(5)]


@given(st.binary(max_size=300))
def test_noise_raises_nothing_else(payload: bytes) -> None:
    """Whatever the bytes."""
    try:
        envelope = decode(payload)
    except ValueError:
        return
    list(envelope.records())


@given(st.data())
def test_damage_raises_nothing_else(data: st.DataObject) -> None:
    """A good envelope with some bytes changed, cut or doubled."""
    payload = bytearray(_payload(RECORDS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not payload:
            break
    try:
        envelope = decode(bytes(payload))
    except ValueError:
        return
    list(envelope.records())


def test_many_records_are_parted_into_envelopes_of_bounded_size() -> None:
    """In order, none twice, none over the limit unless one record alone is."""
    records: list[Record] = [Dispatched(n, A, 0.5, 9, 1.0, True, 16, b"x" * 100_000) for n in range(10)]
    payloads = [encode("p1", "s1", 7, batch) for batch in batches(records)]

    assert len(payloads) == 5
    assert max(map(len, payloads)) < 257 * 1024
    assert [record for payload in payloads for record in decode(payload).records()] == records
