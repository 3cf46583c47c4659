"""A client that sends bytes as they are and reads an answer without forgiving anything."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Self

import httptools


def post(
    body: bytes, *, path: str = "/v1/completions", headers: bytes = b"", host: bytes = b"host: gateway\r\n"
) -> bytes:
    """A request's bytes. ``headers``: further lines, each with its CRLF."""
    head = b"POST %b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n"
    return head % (path.encode(), host, headers, len(body)) + body


def get(path: str, *, method: str = "GET", headers: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\nhost: gateway\r\n%b\r\n" % (method.encode(), path.encode(), headers)


@dataclass
class RawAnswer:
    """``complete``: it ended as its own framing says, not with the connection."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False

    def values(self, name: str) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name.encode()]

    def value(self, name: str) -> bytes:
        """The only value of a header."""
        (value,) = self.values(name)
        return value

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


class RawClient:
    """``async with RawClient(port) as client``. One connection."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._tls = tls

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1",
            self._port,
            limit=2**16,
            ssl=self._tls,
            server_hostname="127.0.0.1" if self._tls else None,
        )
        self._rest = b""
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def read_until(self, mark: bytes) -> bytes:
        """Raw bytes up to and with ``mark``."""
        return await asyncio.wait_for(self.reader.readuntil(mark), 10)

    async def read_to_end(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 10)

    async def answer(self, *, head_only: bool = False) -> RawAnswer:
        """The next answer, or what came of it before the connection ended."""
        answer = RawAnswer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.complete:
            data = await asyncio.wait_for(self._more(head_only), 10)
            if not data:
                break
            parser.feed_data(data)
            answer.status = parser.get_status_code()
            if head_only:
                answer.complete = True
        return answer

    async def answer_exactly(self) -> RawAnswer:
        """The next answer with a length, and not a byte of what follows it."""
        raw = await self.read_until(b"\r\n\r\n")
        answer = RawAnswer()
        parser = httptools.HttpResponseParser(answer)
        parser.feed_data(raw)
        answer.status = parser.get_status_code()
        parser.feed_data(await asyncio.wait_for(self.reader.readexactly(int(answer.value("content-length"))), 10))
        return answer

    async def ask(self, request: bytes, *, head_only: bool = False) -> RawAnswer:
        await self.send(request)
        return await self.answer(head_only=head_only)

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()

    def half_close(self) -> None:
        """Say that nothing more is sent, and go on listening."""
        self.writer.write_eof()

    async def _more(self, head_only: bool) -> bytes:
        try:
            return await (self.reader.readuntil(b"\r\n\r\n") if head_only else self.reader.read(65536))
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""
