"""A publisher of numbered payloads on real sockets that does exactly what a test tells it, wrong or right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import zmq
import zmq.asyncio

from gateway.fleet.event_source import EventSource

ANY_PORT = "tcp://127.0.0.1:0"
END = (-1).to_bytes(8, "big", signed=True)


@dataclass
class ScriptedPublisher:
    """``answers``: for each replay request in turn the messages to send; then requests stay unanswered."""

    live: zmq.Socket[bytes]
    router: zmq.asyncio.Socket
    answers: list[list[list[bytes]]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    @property
    def source(self) -> EventSource:
        """Where to connect to."""
        return EventSource(
            self.live.getsockopt_string(zmq.LAST_ENDPOINT), self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        )

    def publish(self, sequence: int, payload: bytes) -> None:
        """One live batch, as vLLM frames it."""
        self.live.send_multipart([b"topic", sequence.to_bytes(8, "big"), payload])

    async def serve(self) -> None:
        """Answer replay requests until cancelled."""
        while True:
            client, _, first = await self.router.recv_multipart()
            self.requests.append(int.from_bytes(first, "big"))
            for message in self.answers.pop(0) if self.answers else ():
                await self.router.send_multipart([client, b"", *message])


def batch(sequence: int, payload: bytes) -> list[bytes]:
    """A replay reply with a topic frame."""
    return [b"topic", sequence.to_bytes(8, "big"), payload]


def old_batch(sequence: int, payload: bytes) -> list[bytes]:
    """A replay reply of vLLM up to 0.25."""
    return [sequence.to_bytes(8, "big"), payload]


@asynccontextmanager
async def scripted_publisher() -> AsyncIterator[ScriptedPublisher]:
    """Both sockets bound, and replay requests answered."""
    context = zmq.asyncio.Context()
    live = zmq.Socket(context, zmq.PUB)
    router = context.socket(zmq.ROUTER)
    for socket in (live, router):
        socket.bind(ANY_PORT)
    publisher = ScriptedPublisher(live, router)
    task = asyncio.get_running_loop().create_task(publisher.serve())
    try:
        yield publisher
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        live.close(linger=0)
        router.close(linger=0)
        context.term()
