"""Clients that do not read: what their replicas send waits at the replicas, not in the gateway's memory."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from hashlib import blake2b
from pathlib import Path

from tests.end_to_end.beside import gateway_beside
from tests.fakes.raw_client import RawClient, post
from tests.fakes.scripted_server import LAST_CHUNK, SSE_HEAD, ScriptedServer, Wire, answer, chunk
from tests.fakes.waiting import eventually
from tests.running_gateway import RunningGateway

PLAIN_BYTES, STREAM_BYTES = 200_000_000, 60_000_000  # the kernel's buffers on the way hold some 10 MB, seldom 30
READERS = 50
MOST_GROWTH_BYTES = 20_000_000
MOST_GROWTH_EACH_BYTES = 800_000  # uvloop reads up to 256 kB at once, and frames are made of them
_PIECE = bytes(range(256)) * 256


class Fountain:
    """A replica with more to say than all buffers on the way take. ``sent``: by the number that a request names."""

    def __init__(self) -> None:
        self.sent: dict[int, int] = {}
        self.server = ScriptedServer(self._answer)

    async def _answer(self, wire: Wire) -> None:
        if wire.request.line.startswith(b"GET /v1/models "):
            await wire.send(answer(b'{"data": [{"id": "m"}]}'))
        elif wire.request.line.startswith(b"GET"):
            await wire.send(answer(b""))
        else:
            number = int(wire.request.values("x-number")[0])
            await (self._stream(wire, number) if number else self._plain(wire))

    async def _plain(self, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % PLAIN_BYTES)
        self.sent[0] = 0
        for at in range(0, PLAIN_BYTES, len(_PIECE)):
            piece = _PIECE[: PLAIN_BYTES - at]
            await wire.send(piece)
            self.sent[0] += len(piece)

    async def _stream(self, wire: Wire, number: int) -> None:
        await wire.send(SSE_HEAD)
        event = an_event(number)
        self.sent[number] = 0
        for _ in range(STREAM_BYTES // len(event)):
            await wire.send(chunk(event))
            self.sent[number] += len(event)
        await wire.send(LAST_CHUNK)


def an_event(number: int) -> bytes:
    """Tells one client's stream from another's."""
    return b'data: {"id": %d, "text": "%b"}\n\n' % (number, b"x" * 8000)


def a_request(number: int) -> bytes:
    return post(b'{"model": "m", "prompt": "x"}', headers=b"x-number: %d\r\n" % number)


def memory_bytes(gateway: RunningGateway) -> int:
    """What of the process is in memory."""
    pages = int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1])
    return pages * 4096


async def stalled(sent: Callable[[], int]) -> int:
    """How much was sent when nothing more was for a hundred looks, on end."""
    before, quiet = -1, 0

    def is_quiet() -> bool:
        nonlocal before, quiet
        now = sent()
        quiet = quiet + 1 if now == before else 0
        before = now
        return quiet > 100

    await eventually(is_quiet, 60)
    return before


async def gateway_before(stack: AsyncExitStack, fountain: Fountain) -> RunningGateway:
    await stack.enter_async_context(fountain.server)
    starting = gateway_beside([fountain.server.origin.url], strategy="round_robin", tokenizer="/nowhere")
    gateway = await stack.enter_async_context(starting)
    async with client_of(gateway) as client:  # so that what is made at the first request is there
        await client.send(a_request(READERS + 1))
        await client.read_until(b"\n\n")
    await stalled(lambda: fountain.sent[READERS + 1])
    return gateway


def client_of(gateway: RunningGateway) -> RawClient:
    return RawClient(int(gateway.url.rpartition(":")[2]))


async def read_chunks(client: RawClient) -> bytes:
    """A whole answer's body."""
    await client.read_until(b"\r\n\r\n")
    pieces = []
    while size := int(await client.read_until(b"\r\n"), 16):
        pieces.append(await asyncio.wait_for(client.reader.readexactly(size), 20))
        assert await client.reader.readexactly(2) == b"\r\n"
    assert await client.read_until(b"\r\n") == b"\r\n"
    return b"".join(pieces)


async def test_a_plain_answer_of_200_mb() -> None:
    """The replica's writing stalls, the gateway grows by next to nothing, and then all of it comes, byte by byte."""
    fountain = Fountain()
    async with AsyncExitStack() as stack:
        gateway = await gateway_before(stack, fountain)
        client = await stack.enter_async_context(client_of(gateway))
        before = memory_bytes(gateway)
        await client.send(a_request(0))
        await eventually(lambda: fountain.sent.get(0))
        written = await stalled(lambda: fountain.sent[0])

        assert written < PLAIN_BYTES / 2
        assert memory_bytes(gateway) - before < MOST_GROWTH_BYTES
        await client.read_until(b"\r\n\r\n")
        digest, left = blake2b(), PLAIN_BYTES
        while left and (data := await client.reader.read(2**20)):
            digest.update(data)
            left -= len(data)
        grown = memory_bytes(gateway) - before

    assert left == 0
    assert digest.digest() == blake2b((_PIECE * (PLAIN_BYTES // len(_PIECE) + 1))[:PLAIN_BYTES]).digest()
    assert grown < MOST_GROWTH_BYTES


async def test_fifty_streams() -> None:
    """Each costs no more than the loop reads at once, twice. Some read all of theirs in the end, the others leave."""
    fountain = Fountain()
    async with AsyncExitStack() as stack:
        gateway = await gateway_before(stack, fountain)
        before = memory_bytes(gateway)
        clients = [await stack.enter_async_context(client_of(gateway)) for _ in range(READERS)]
        for number, client in enumerate(clients, 1):
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            await client.send(a_request(number))
        await eventually(lambda: len(fountain.sent) == READERS + 1, 60)
        await stalled(lambda: sum(fountain.sent.values()))

        # Not the end of any: Linux alone may take 40 MB on the way (tcp_rmem and tcp_wmem, both sides).
        assert max(fountain.sent.values()) < STREAM_BYTES * 0.9
        assert memory_bytes(gateway) - before < MOST_GROWTH_EACH_BYTES * READERS
        for number in (1, 2):
            body = await read_chunks(clients[number - 1])
            assert body == an_event(number) * (STREAM_BYTES // len(an_event(number)))
        for client in clients[2:]:
            client.reset()
        await asyncio.to_thread(gateway.wait, lambda: gateway.status()["edge"]["under_way"] == 0)

        assert memory_bytes(gateway) - before < MOST_GROWTH_EACH_BYTES * READERS
        status = await asyncio.to_thread(gateway.status)
        assert (status["edge"]["upstream_busy"], status["admission"]["inflight"]) == (0, 0)
