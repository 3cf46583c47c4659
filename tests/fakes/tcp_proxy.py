"""A TCP proxy on loopback whose network a test can spoil: late, refusing, cut."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from typing import Self

_MOST_BYTES = 65536


class TcpProxy:
    """``async with TcpProxy(port) as proxy``: passes everything on to ``port``, until told otherwise.

    ``tls``: it speaks TLS to those who connect, and plainly to the target.
    """

    def __init__(self, target_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._target_port = target_port
        self._tls = tls
        self._delay_s = 0.0
        self._passes = asyncio.Event()
        self._passes.set()
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        for task in self._serving:
            task.cancel()
        while self._serving:
            await asyncio.wait(self._serving)

    def delay(self, seconds: float) -> None:
        """What the target sends arrives later by so much."""
        self._delay_s = seconds

    def cut(self) -> None:
        """Connections stay, and nothing passes any more, not even their end: no FIN, no RST."""
        self._passes.clear()

    async def refuse(self) -> None:
        """Connections are reset, new ones refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() != -1:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def heal(self) -> None:
        """Pass everything on again, also what was held back."""
        self._delay_s = 0.0
        self._passes.set()
        if self._server is None:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self._writers.add(writer)
        try:
            await self._passes.wait()
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            self._writers.add(target_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, target_writer, late=False))
                    group.create_task(self._pump(target_reader, writer, late=True))
            finally:
                self._writers.discard(target_writer)
                target_writer.close()
        except* ConnectionError:
            pass
        except* asyncio.CancelledError:
            pass  # at the end of the block: asyncio's streams report a handler that was cancelled
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool) -> None:
        while data := await reader.read(_MOST_BYTES):
            if late and self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._passes.wait()
            writer.write(data)
            await writer.drain()
        await self._passes.wait()
        writer.close()
