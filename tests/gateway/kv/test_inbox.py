"""A ZeroMQ socket on the event loop: it wakes, it gives all there is, it goes without a trace."""

from __future__ import annotations

import asyncio

import zmq

from gateway.kv.inbox import Inbox


async def test_a_burst_wakes_once_and_is_read_to_its_end() -> None:
    """Every message comes in order, then there is none."""
    wake = asyncio.Event()
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        port = sender.bind_to_random_port("tcp://127.0.0.1")
        receiver = context.socket(zmq.PULL)
        with Inbox(receiver, wake) as inbox:
            receiver.connect(f"tcp://127.0.0.1:{port}")
            for number in range(100):
                sender.send_multipart([b"%d" % number, b"x"])
            got: list[bytes] = []
            while len(got) < 100:
                await wake.wait()
                wake.clear()
                while (frames := inbox.take()) is not None:
                    got.append(frames[0])

            assert got == [b"%d" % number for number in range(100)]
            assert inbox.take() is None
        inbox.close()
        assert receiver.closed


async def test_sending_to_nobody_does_not_wait() -> None:
    """What does not fit into the queue is dropped."""
    with zmq.Context() as context:
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.SNDHWM, 1)
        with Inbox(socket, asyncio.Event()) as inbox:
            for _ in range(10):
                inbox.send([b"", b"hello"])
            assert inbox.take() is None
