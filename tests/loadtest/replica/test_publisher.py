"""The event stream on real ZeroMQ sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import zmq
import zmq.asyncio

from loadtest.replica.kv_events import AllBlocksCleared, BlockRemoved, EventDialect
from loadtest.replica.publisher import EventPublisher

END = b"\xff" * 8
TIMEOUT_S = 20.0


def sequence(number: int) -> bytes:
    return number.to_bytes(8, "big")


class Reader:
    """A subscriber and a replay client."""

    def __init__(self, subscriber: zmq.asyncio.Socket, dealer: zmq.asyncio.Socket) -> None:
        self._subscriber = subscriber
        self._dealer = dealer

    async def live(self) -> list[bytes]:
        return await asyncio.wait_for(self._subscriber.recv_multipart(), TIMEOUT_S)

    async def subscribed(self, publisher: EventPublisher) -> None:
        """Publish until a frame arrives: a subscription takes a moment."""
        while not await self._subscriber.poll(20):
            publisher.publish([AllBlocksCleared()])
        while await self._subscriber.poll(50):
            await self._subscriber.recv_multipart()

    async def ask(self, *frames: bytes) -> None:
        await self._dealer.send_multipart(list(frames))

    async def replay(self, first: int) -> list[list[bytes]]:
        """All frames up to the end marker, without the empty first frame."""
        await self.ask(b"", sequence(first))
        replies: list[list[bytes]] = []
        while not replies or replies[-1][-2] != END:
            frames = await asyncio.wait_for(self._dealer.recv_multipart(), TIMEOUT_S)
            assert frames[0] == b""
            replies.append(frames[1:])
        return replies


@asynccontextmanager
async def reading(publisher: EventPublisher, topic: str = "") -> AsyncIterator[Reader]:
    context = zmq.asyncio.Context()
    subscriber, dealer = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    subscriber.subscribe(topic.encode())
    subscriber.connect(publisher.endpoint)
    assert publisher.replay_endpoint is not None
    dealer.connect(publisher.replay_endpoint)
    try:
        yield Reader(subscriber, dealer)
    finally:
        subscriber.close(0)
        dealer.close(0)
        context.term()


async def test_live_frames_are_topic_sequence_payload() -> None:
    """Three frames; the sequence counts up by one from 0, in eight bytes, big-endian."""
    async with EventPublisher(topic="kv@x", rank=1, clock=lambda: 2.5) as publisher, reading(publisher) as reader:
        await reader.subscribed(publisher)
        expected = publisher.next_sequence

        publisher.publish([AllBlocksCleared()])
        publisher.publish([])
        publisher.publish([BlockRemoved((7,))])
        first, second = await reader.live(), await reader.live()

        assert first[:2] == [b"kv@x", sequence(expected)]
        assert msgspec.msgpack.decode(first[2]) == [2.5, [{"type": "AllBlocksCleared"}], 1]
        assert second[1] == sequence(expected + 1)


async def test_replays_from_the_asked_sequence_on() -> None:
    """Everything buffered from there, then the end marker; from the future the end marker alone."""
    async with EventPublisher(topic="kv@x") as publisher, reading(publisher) as reader:
        for number in range(5):
            publisher.publish([BlockRemoved((number,))])

        replies = await reader.replay(3)

        assert [reply[:2] for reply in replies] == [[b"kv@x", sequence(3)], [b"kv@x", sequence(4)], [b"", END]]
        assert [len(await reader.replay(first)) for first in (0, 99)] == [6, 1]


async def test_replays_only_what_the_buffer_holds() -> None:
    """A miss is not announced: the replay starts later than asked."""
    async with EventPublisher(buffer_steps=2) as publisher, reading(publisher) as reader:
        for number in range(5):
            publisher.publish([BlockRemoved((number,))])

        assert [reply[1] for reply in await reader.replay(0)] == [sequence(3), sequence(4), END]
        publisher.forget_buffer()
        assert [reply[1] for reply in await reader.replay(0)] == [END]


async def test_older_replays_have_no_topic_frame() -> None:
    """Up to 0.25: sequence and payload, and an end of two frames."""
    async with EventPublisher(topic="t", dialect=EventDialect.V0_23) as publisher, reading(publisher) as reader:
        publisher.publish([AllBlocksCleared()])

        first, end = await reader.replay(0)

        assert (first[0], end) == (sequence(0), [END, b""])


async def test_a_malformed_replay_request_gets_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, and the next request is served."""
    async with EventPublisher() as publisher, reading(publisher) as reader:
        await reader.ask(b"garbage")

        assert await reader.replay(0) == [[b"", END, b""]]
        assert "not understood" in caplog.text


async def test_dropped_frames_can_be_replayed() -> None:
    """They take a sequence number, are missing live, and are in the buffer."""
    async with EventPublisher() as publisher, reading(publisher) as reader:
        await reader.subscribed(publisher)
        lost = publisher.next_sequence

        publisher.drop_frames(2)
        for number in range(3):
            publisher.publish([BlockRemoved((number,))])

        assert (await reader.live())[1] == sequence(lost + 2)
        assert [reply[1] for reply in await reader.replay(lost)] == [sequence(lost + i) for i in range(3)] + [END]


async def test_a_restart_counts_from_0_on_the_same_ports() -> None:
    """The buffer is empty, and a subscriber that stayed comes back by itself."""
    async with EventPublisher() as publisher, reading(publisher) as reader:
        await reader.subscribed(publisher)
        endpoints = publisher.endpoint, publisher.replay_endpoint

        await publisher.restart()

        assert publisher.next_sequence == 0
        assert (publisher.endpoint, publisher.replay_endpoint) == endpoints
        await reader.subscribed(publisher)
        first, *_ = await reader.replay(0)
        assert first[1] == sequence(0)


async def test_a_taken_port_is_an_error() -> None:
    """And leaves nothing open."""
    async with EventPublisher() as publisher:
        second = EventPublisher(endpoint=publisher.endpoint)
        with pytest.raises(zmq.ZMQError):
            await second.start()
        await second.stop()
