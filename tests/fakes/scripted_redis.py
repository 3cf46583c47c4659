"""A server that speaks Redis's protocol and says to every command what a test tells it."""

from __future__ import annotations

import asyncio
from typing import Self

import hiredis


class ScriptedRedis:
    """``async with ScriptedRedis(b"-LOADING ...\\r\\n") as server``. ``says``: raw bytes, for each command."""

    def __init__(self, says: bytes) -> None:
        self.says = says
        self.commands: list[list[bytes]] = []
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        while self._serving:
            await asyncio.wait(self._serving)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        parser = hiredis.Reader(notEnoughData=None)
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                while (command := parser.gets()) is not None:
                    self.commands.append(command)
                    writer.write(self.says)
        except (ConnectionError, asyncio.CancelledError):
            pass  # asyncio's streams report a handler that was cancelled
        finally:
            writer.close()
