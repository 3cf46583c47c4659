"""What a process tells of its requests."""

from __future__ import annotations

from gateway.fleet.inflight import InFlight
from gateway.fleet.server_spec import parse_servers
from gateway.kv.block_bytes import unpack_blocks
from gateway.shared.load.load_messages import (
    MOST_BLOCKS,
    Dispatched,
    Ended,
    FirstByte,
    Left,
    Record,
    ReplicaName,
    Sync,
    decode,
)
from tests.gateway.examples import MODEL, Clock
from tests.gateway.shared.load.gateways import Side


def _records(payloads: list[bytes]) -> list[Record | None]:
    return [record for payload in payloads for record in decode(payload).records()]


def _caught_up(clock: Clock | None = None) -> Side:
    """It owes no sync."""
    side = Side("p1", clock=clock)
    side.says()
    return side


def test_tells_what_happened_in_order() -> None:
    """Each request under a number of its own, at a replica by its name, with its promise; and nothing twice."""
    side = _caught_up()
    first, second = side.dispatch("a", 0.5), side.dispatch("b", 0.25)
    side.first_byte("a", first)
    side.end("b", second)
    told = _records(side.says())

    a, b = ReplicaName(MODEL, "a", 0), ReplicaName(MODEL, "b", 0)
    assert told == [
        Dispatched(1, a, 0.5, 100, 2.0, True, 16),
        Dispatched(2, b, 0.25, 100, 2.0, True, 16),
        FirstByte(1, 0.0, 0.5, tokens=4_000.0, steps=1.0),
        Ended(2, False),
    ]
    assert side.says() == []


def test_blocks_are_told_as_far_as_a_message_goes() -> None:
    """Eight bytes each; of a huge prompt the first ones."""
    side = _caught_up()
    replica = side.replica("a")
    for chain in ([1, 2**64 - 1], list(range(MOST_BLOCKS + 5))):
        side.own.dispatched(replica, InFlight(0.1, 0.1, 9, 1.0, True, 100.0), 16, chain)
    short, long = _records(side.says())

    assert isinstance(short, Dispatched)
    assert unpack_blocks(short.blocks) == [1, 2**64 - 1]
    assert isinstance(long, Dispatched)
    assert unpack_blocks(long.blocks) == list(range(MOST_BLOCKS))


def test_a_sync_tells_all_that_is_open() -> None:
    """With its age, and whether its promise still stands; what is over is not in it."""
    clock = Clock()
    side = _caught_up(clock)
    old, over = side.dispatch("a", 0.5), side.dispatch("a")
    side.first_byte("a", old)
    side.end("a", over)
    clock.now += 2
    side.dispatch("b", 0.25)
    side.says()
    clock.now += 1
    side.own.owe_sync()
    (sync,) = _records(side.says())

    assert isinstance(sync, Sync)
    assert (sync.first, sync.last) == (0, 3)
    assert [name.server_id for name in sync.replicas] == ["a", "b"]
    rows = [(row.number, row.replica, row.age_s, row.promised_s, row.prefilling) for row in sync.requests]
    assert rows == [(1, 0, 3.0, 0.5, False), (3, 1, 1.0, 0.25, True)]


def test_the_first_thing_told_is_a_sync() -> None:
    """Others learn that it is there."""
    (sync,) = _records(Side("p1").says())

    assert sync == Sync(0, 0, [], [])


def test_a_great_sync_comes_in_parts_that_leave_no_number_out() -> None:
    """9,000 open requests in messages of bounded size; together they cover every number once."""
    side = _caught_up()
    for _ in range(9000):
        side.dispatch("a")
    side.says()
    side.own.owe_sync()
    payloads = side.says()
    syncs = [record for record in _records(payloads) if isinstance(record, Sync)]

    assert max(map(len, payloads)) < 257 * 1024
    assert [(sync.first, sync.last) for sync in syncs] == [(0, 4000), (4001, 8000), (8001, 9000)]
    assert [row.number for sync in syncs for row in sync.requests] == list(range(1, 9001))


def test_what_cannot_be_sent_does_not_pile_up() -> None:
    """With nobody to take it, it is thrown away; the next time a sync tells all, and the counter shows the gap."""
    side = _caught_up()
    before = decode(_send_one(side)).counter
    for _ in range(30_000):
        side.end("a", side.dispatch("a"))
    still_open = side.dispatch("a")
    payloads = side.says()
    records = _records(payloads)

    assert len(records) <= 10_001
    assert decode(payloads[0]).counter > before + 1
    assert isinstance(records[-1], Sync)
    assert len(records[-1].requests) == 1
    side.end("a", still_open)
    assert _records(side.says()) == [Ended(30_001, False)]


def _send_one(side: Side) -> bytes:
    side.own.owe_sync()
    (payload,) = side.says()
    return payload


def test_forgetting_owes_a_sync() -> None:
    """What was thrown away is told with it."""
    side = _caught_up()
    side.dispatch("a")
    side.own.forget_waiting()
    (sync,) = _records(side.says())

    assert isinstance(sync, Sync)
    assert [row.number for row in sync.requests] == [1]


def test_requests_at_a_replica_that_left_are_told_no_more() -> None:
    """They hold nothing in our books of the replica that came in its place either."""
    side = _caught_up()
    side.dispatch("a")
    side.dispatch("b")
    side.pool.reconcile(parse_servers("b=http://b:1"))
    side.own.owe_sync()
    sync = _records(side.says())[-1]

    assert isinstance(sync, Sync)
    assert [name.server_id for name in sync.replicas] == ["b"]
    assert [row.number for row in sync.requests] == [2]


def test_the_last_word_is_that_it_leaves() -> None:
    """After everything that waited."""
    side = _caught_up()
    side.end("a", side.dispatch("a"))
    told = _records(list(side.own.take_last()))

    assert [type(record) for record in told] == [Dispatched, Ended, Left]
