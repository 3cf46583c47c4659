"""Writes wait for the end of a turn, keep their order, and do not outlive their transport."""

from __future__ import annotations

import asyncio

import pytest

from gateway.edge.outbox import LARGE_BYTES, MOST, Outbox


class Recorded:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


async def test_what_is_written_leaves_at_the_end_of_the_turn() -> None:
    """Not before, and without anybody's asking."""
    outbox, one, two = Outbox(), Recorded(), Recorded()
    outbox.write(one, b"1")
    outbox.write(two, b"2")
    outbox.write(one, b"3")
    assert not one.written
    await asyncio.sleep(0)
    assert (one.written, two.written) == ([b"1", b"3"], [b"2"])


async def test_so_many_do_not_wait() -> None:
    """What came first is not held up by an endless turn."""
    outbox, transport = Outbox(), Recorded()
    for _ in range(MOST):
        outbox.write(transport, b"x")
    assert len(transport.written) == MOST
    await asyncio.sleep(0)
    assert len(transport.written) == MOST


async def test_what_is_large_does_not_wait() -> None:
    """It goes at once, in its turn: the transport must know of it, to say that it has enough."""
    outbox, transport = Outbox(), Recorded()
    outbox.write(transport, b"x")
    outbox.write(transport, b"y" * (LARGE_BYTES + 1))
    assert transport.written == [b"x", b"y" * (LARGE_BYTES + 1)]
    outbox.write(transport, b"z")
    await asyncio.sleep(0)
    assert transport.written[2:] == [b"z"]


async def test_it_goes_on_after_a_flush() -> None:
    """By hand, by number or by the turn's end: nothing is lost, nothing sent twice."""
    outbox, transport = Outbox(), Recorded()
    for number in range(3 * MOST + 2):
        outbox.write(transport, b"%d" % number)
        if number % 7 == 0:
            outbox.flush()
    await asyncio.sleep(0)
    assert transport.written == [b"%d" % number for number in range(3 * MOST + 2)]


async def test_a_transport_that_closed_gets_nothing() -> None:
    """The others get theirs."""
    outbox, gone, there = Outbox(), Recorded(), Recorded()
    outbox.write(gone, b"1")
    outbox.write(there, b"2")
    gone.closing = True
    await asyncio.sleep(0)
    assert (gone.written, there.written) == ([], [b"2"])


async def test_a_transport_that_fails_costs_nobody_else_a_byte(caplog: pytest.LogCaptureFixture) -> None:
    """It is ended, and gets nothing more."""

    class Failing(Recorded):
        def write(self, data: bytes) -> None:
            super().write(data)
            raise RuntimeError("a fault")

    outbox, failing, there = Outbox(), Failing(), Recorded()
    for transport, data in ((failing, b"1"), (there, b"2"), (failing, b"3"), (there, b"4")):
        outbox.write(transport, data)
    outbox.flush()
    assert (failing.written, failing.closing, there.written) == ([b"1"], True, [b"2", b"4"])
    assert "a write failed" in caplog.text


async def test_a_write_within_a_flush_waits_its_turn() -> None:
    """As when a reader that is slow makes somebody else write."""
    outbox, last = Outbox(), Recorded()

    class Answering(Recorded):
        def write(self, data: bytes) -> None:
            super().write(data)
            outbox.write(last, data)

    first = Answering()
    outbox.write(first, b"1")
    outbox.flush()
    assert (first.written, last.written) == ([b"1"], [])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert last.written == [b"1"]
