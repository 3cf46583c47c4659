"""The two conversations with a publisher: framing, news of the connection, the end of a replay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
import zmq

from gateway.kv.subscription import Batch, MalformedFramesError, ReplayRequest, Subscription
from tests.gateway.kv.publishers import END, batch, old_batch, scripted_publisher

T = TypeVar("T")


async def taken(take: Callable[[], T | None], wake: asyncio.Event) -> T:
    """What ``take`` gives first."""
    while (got := take()) is None:
        await wake.wait()
        wake.clear()
    return got


async def test_live_batches_come_after_the_news_that_the_connection_is_made() -> None:
    """Three frames or two; others are refused and the next ones still come."""
    wake = asyncio.Event()
    with zmq.Context() as context:
        async with scripted_publisher() as publisher:
            with Subscription(context, publisher.source, wake) as subscription:
                assert await taken(subscription.take_connected, wake) is True
                while subscription.take() is None:  # a subscription takes a moment to arrive
                    publisher.publish(0, b"first")
                    await asyncio.sleep(0)
                publisher.live.send_multipart([b"too short"])
                publisher.live.send_multipart([(2**64 - 1).to_bytes(8, "big"), b"last"])

                got, malformed = [Batch(0, b"first")], 0
                while got[-1].payload == b"first":
                    try:
                        got.append(await taken(subscription.take, wake))
                    except MalformedFramesError:
                        malformed += 1
                assert (got[-1], malformed) == (Batch(2**64 - 1, b"last"), 1)
                publisher.live.close(linger=0)
                assert await taken(subscription.take_connected, wake) is False


async def test_a_replay_ends_with_its_marker() -> None:
    """Both framings give batches, the marker gives the end, and nothing is read after it."""
    wake = asyncio.Event()
    with zmq.Context() as context:
        async with scripted_publisher() as publisher:
            publisher.answers = [[batch(3, b"three"), old_batch(4, b"four"), [b"", END, b""], batch(5, b"five")]]
            endpoint = publisher.source.replay_endpoint or ""
            request = ReplayRequest(context, endpoint, 3, wake)

            got = [await taken(request.take, wake) for _ in range(2)]
            while not request.ended:
                assert request.take() is None
                await asyncio.sleep(0)

            assert got == [Batch(3, b"three"), Batch(4, b"four")]
            assert request.take() is None
            assert publisher.requests == [3]
            request.close()
            request.close()


async def test_addresses_that_are_none_leave_nothing_open() -> None:
    """Both say so at once."""
    with zmq.Context() as context:
        with pytest.raises(zmq.ZMQError):
            ReplayRequest(context, "nonsense", 0, asyncio.Event())
        async with scripted_publisher() as publisher:
            wrong = publisher.source._replace(endpoint="nonsense")
            with pytest.raises(zmq.ZMQError):
                Subscription(context, wrong, asyncio.Event())
