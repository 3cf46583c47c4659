"""Both ends hear each other, and that the other is gone."""

from __future__ import annotations

import socket

from gateway.workers.channel import Channel, Order, Report


async def both_ends() -> tuple[Channel[Report], Channel[Order]]:
    ours, theirs = socket.socketpair()
    return await Channel.open(ours, Report), await Channel.open(theirs, Order)


async def test_each_hears_what_the_other_says_in_order() -> None:
    """Every field survives."""
    supervisor, worker = await both_ends()
    reports = [Report(3, ready=True, accepting=True), Report(asks_to_leave=True, drained=True), Report()]
    for report in reports:
        worker.say(report)
    supervisor.say(Order("retire"))

    assert [await supervisor.hear() for _ in reports] == reports
    assert await worker.hear() == Order("retire")
    supervisor.close()
    worker.close()


async def test_the_end_of_one_side_is_told_after_its_last_words() -> None:
    """What was said still arrives; then nothing more."""
    supervisor, worker = await both_ends()
    worker.say(Report(7))
    worker.close()

    assert await supervisor.hear() == Report(7)
    assert await supervisor.hear() is None
    supervisor.say(Order("stop"))  # to nobody
    assert await supervisor.hear() is None
    supervisor.close()


async def test_half_a_message_and_an_unknown_one_are_not_heard() -> None:
    """A process may be killed in the middle of a word; fields that are not known are passed over."""
    ours, theirs = socket.socketpair()
    supervisor = await Channel.open(ours, Report)
    theirs.sendall(b'nonsense\n{"connections":"many"}\n{"connections":2,"mood":"fine"}\n{"connections":3')
    theirs.close()

    assert await supervisor.hear() == Report(2)
    assert await supervisor.hear() is None
    supervisor.close()


async def test_a_side_that_does_not_read_is_not_told_without_bound() -> None:
    """What waits for it stays small; when it reads again it hears the newest."""
    ours, theirs = socket.socketpair()
    worker = await Channel.open(theirs, Order)
    for number in range(20_000):
        worker.say(Report(number))

    assert worker.unsent_bytes < 100_000
    supervisor = await Channel.open(ours, Report)
    assert await supervisor.hear() == Report(0)
    supervisor.close()
    worker.close()
