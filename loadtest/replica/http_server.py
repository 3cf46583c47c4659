"""A small HTTP/1.1 server that can also do what a good one never does: split, stall, reset, refuse.

Owns sockets, framing and keep-alive (idle connections close after 5 s, as uvicorn's do under vLLM). Does not
know routes. A handler that is running when its client leaves is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

import httptools

KEEP_ALIVE_S = 5.0
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """What a client sent. ``raw``: every byte of it as it came (of pipelined ones, all with the first)."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    raw: bytes
    keep_alive: bool

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        """The first header of that name, in any case; ``""`` if there is none."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), "")


class Responder:
    """One answer: :meth:`send`, or :meth:`head`, :meth:`write`... and :meth:`end`."""

    def __init__(self, connection: Connection, request: ReceivedRequest) -> None:
        self._connection = connection
        self._has_body = request.method != "HEAD"
        self._keep_alive = request.keep_alive
        self.split_bytes = 0  # write in pieces of this size; 0: as given
        self._chunked = False

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer with its length."""
        await self.head(status, [*headers, ("content-length", str(len(body)))])
        await self.write(body)

    async def head(self, status: int, headers: Headers) -> None:
        """Status and headers; chunked, unless a content-length is among them."""
        self._chunked = all(name != "content-length" for name, _ in headers)
        framing = [("transfer-encoding", "chunked")] if self._chunked else []
        closing = [] if self._keep_alive else [("connection", "close")]
        stamp = [("date", formatdate(usegmt=True)), ("server", "uvicorn")]
        lines = [f"{name}: {value}\r\n" for name, value in (*stamp, *headers, *framing, *closing)]
        await self._write(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{''.join(lines)}\r\n".encode())

    async def write(self, data: bytes) -> None:
        """A piece of the body."""
        if data and self._has_body:
            await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self) -> None:
        """The end of a chunked body."""
        if self._chunked and self._has_body:
            await self._write(b"0\r\n\r\n")

    async def die(self, *, reset: bool) -> None:
        """Break the connection off here: by RST, or by a FIN that looks like an early end."""
        self._connection.die(reset=reset)
        await asyncio.get_running_loop().create_future()  # until the lost connection cancels this handler

    async def _write(self, data: bytes) -> None:
        size = self.split_bytes or len(data)
        for start in range(0, len(data), size):
            await self._connection.write(data[start : start + size])
            if self.split_bytes:
                await asyncio.sleep(0)


Handler = Callable[[ReceivedRequest, Responder], Awaitable[None]]


class HttpServer:
    """Listens on one address. ``port`` 0 becomes the chosen one and stays it."""

    def __init__(
        self, handler: Handler, *, host: str = "127.0.0.1", port: int = 0, keep_alive_s: float = KEEP_ALIVE_S
    ) -> None:
        self.host = host
        self.port = port
        self.handler = handler
        self.keep_alive_s = keep_alive_s
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._all_lost = asyncio.Event()
        self._all_lost.set()

    @property
    def connections(self) -> int:
        """Open ones."""
        return len(self._connections)

    @property
    def is_listening(self) -> bool:
        return self._server is not None

    async def start(self) -> None:
        """Listen. Raises ``OSError`` where the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections and reset the open ones, as a process that is killed does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = list(self._connections.values())
        for connection in list(self._connections):
            connection.die(reset=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._all_lost.wait()

    def opened(self, connection: Connection) -> None:
        """For :class:`Connection`: serve it until it is lost."""
        self._all_lost.clear()
        self._connections[connection] = asyncio.get_running_loop().create_task(connection.serve())

    def lost(self, connection: Connection) -> None:
        """For :class:`Connection`: its client is gone."""
        self._connections.pop(connection).cancel()
        if not self._connections:
            self._all_lost.set()


class Connection(asyncio.Protocol):
    """One client connection: parses requests as they come, answers them one after another."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._requests: asyncio.Queue[ReceivedRequest] = asyncio.Queue()
        self._raw = bytearray()
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # an upgrade nobody here speaks: the request is answered as it stands
        except httptools.HttpParserError:
            body = b"Invalid HTTP request received."
            head = b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self._transport.write(head + body)
            self._transport.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = []
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if any(name.lower() == b"expect" and value.lower() == b"100-continue" for name, value in self._headers):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        request = ReceivedRequest(
            method=self._parser.get_method().decode(),
            target=self._target.decode("latin-1"),
            headers=tuple(self._headers),
            body=bytes(self._body),
            raw=bytes(self._raw),
            keep_alive=self._parser.should_keep_alive(),
        )
        self._raw.clear()
        self._requests.put_nowait(request)

    async def serve(self) -> None:
        """Answer requests until the client or the idle timeout ends the connection."""
        keep_alive = True
        try:
            while keep_alive:
                request = await asyncio.wait_for(self._requests.get(), self._server.keep_alive_s)
                await self._server.handler(request, Responder(self, request))
                keep_alive = request.keep_alive
        except TimeoutError:
            pass  # idle for too long
        finally:
            self._transport.close()

    async def write(self, data: bytes) -> None:
        """Write and wait while the client reads slowly."""
        if not self._transport.is_closing():  # uvloop's raises where asyncio's forgets
            self._transport.write(data)
        await self._writable.wait()

    def die(self, *, reset: bool) -> None:
        """Close at once. ``reset``: with an RST, losing what was not yet sent; else a FIN after it."""
        if not reset:
            self._transport.close()
            return
        raw: socket.socket = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # closed already
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
