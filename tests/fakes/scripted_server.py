"""A server that does exactly what a test says, byte by byte, and remembers what it was asked.

A script is a coroutine that plays one request's answer on a :class:`Wire`; scripts are played in turn, the
last one for ever. Delays are events that the test sets, so nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from gateway.fleet.origin import Origin

LAST_CHUNK = b"0\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def answer(body: bytes, *, status: str = "200 OK", headers: bytes = b"content-type: application/json\r\n") -> bytes:
    """A whole answer with a length. ``headers``: further lines, each with its CRLF."""
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status.encode(), headers, len(body), body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class RecordedRequest:
    """``head`` ends with its empty line; ``body`` is without frames."""

    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    def values(self, name: str) -> list[bytes]:
        """Every value of a header."""
        lines = [line.partition(b":") for line in self.head.split(b"\r\n")[1:] if line]
        return [value.strip() for key, _, value in lines if key.lower() == name.encode()]


@dataclass
class Wire:
    """One connection, as a script sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    request: RecordedRequest
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, *pieces: bytes) -> None:
        """Each piece is a write of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def until_gone(self) -> None:
        """Return when the other side has closed or reset the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.gone.set()

    def close(self) -> None:
        """FIN."""
        self.writer.close()

    def reset(self) -> None:
        """RST."""
        _reset(self.writer)


Script = Callable[[Wire], Awaitable[None]]


def plays(*pieces: bytes) -> Script:
    """A script that sends these pieces and keeps the connection."""

    async def script(wire: Wire) -> None:
        await wire.send(*pieces)

    return script


def plays_and_closes(*pieces: bytes) -> Script:
    async def script(wire: Wire) -> None:
        await wire.send(*pieces)
        wire.close()

    return script


def plays_and_resets(*pieces: bytes) -> Script:
    async def script(wire: Wire) -> None:
        await wire.send(*pieces)
        wire.reset()

    return script


class ScriptedServer:
    """``async with ScriptedServer(script, ...) as server``. Listens on a free port of 127.0.0.1."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = list(scripts)
        self._tls = tls
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._place: socket.socket | None = None
        self.port = 0
        self.requests: list[RecordedRequest] = []
        self.wires: list[Wire] = []
        self.connections = 0

    @property
    def origin(self) -> Origin:
        return Origin(self._tls is not None, "127.0.0.1", self.port)

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        while self._serving:
            await asyncio.wait(self._serving)
        await self._server.wait_closed()
        if self._place is not None:
            self._place.close()

    async def listen(self) -> None:
        """Take connections, after :meth:`kill` again on the same port."""
        place, self._place = self._place or _bound(0), None
        self.port = place.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=place, limit=2**20, ssl=self._tls)

    def close_listener(self) -> None:
        """Refuse connections from now on. Those that are open stay."""
        self._server.close()

    def kill(self) -> None:
        """Refuse connections from now on, and reset those that are open. Nobody else gets the port."""
        self.close_listener()
        self._place = _bound(self.port)
        for writer in list(self._writers):
            _reset(writer)

    @property
    def open_connections(self) -> int:
        return len(self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self._writers.add(writer)
        if self._place is not None:  # killed since this one was accepted
            _reset(writer)
        try:
            while not writer.is_closing():
                request = await _read_request(reader)
                self.requests.append(request)
                wire = Wire(reader, writer, request)
                self.wires.append(wire)
                script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
                await script(wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()  # and no more: asyncio's streams report a handler that was cancelled
        finally:
            self._writers.discard(writer)
            writer.close()


def _bound(port: int) -> socket.socket:
    """Refuses connections until somebody listens."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", port))
    return place


def _reset(writer: asyncio.StreamWriter) -> None:
    if writer.transport.is_closing():
        return
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> RecordedRequest:
    request = RecordedRequest(await reader.readuntil(b"\r\n\r\n"), b"")
    for length in request.values("content-length"):
        request.body = await reader.readexactly(int(length))
    return request


def closed_port() -> int:
    """A port of 127.0.0.1 where nothing listens.

    Below those that systems give to whoever connects: another test's connection cannot take it meanwhile.
    """
    while True:
        port = 15_000 + secrets.randbelow(17_000)  # not random: tests seed that
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
