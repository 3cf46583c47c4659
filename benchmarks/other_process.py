"""OtherProcess: a part of a benchmark in a process of its own, so that what it costs is not measured with the rest."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Self

import uvloop

#: What a part does when it is told its name; the result goes back.
Handlers = Mapping[str, Callable[[], Awaitable[object]]]
_ENDS_S = 10.0


class Parent:
    """Whoever started this process: tells names, gets results."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def obey(self, handlers: Handlers) -> None:
        """Do what is told until the parent ends, or its block does."""
        while True:
            try:
                name = await asyncio.to_thread(self._connection.recv)
            except EOFError:
                return
            self._connection.send(await handlers[name]())


class OtherProcess:
    """``async with OtherProcess(run, *arguments) as other``: ``run`` is a coroutine function of a module, which gets
    its :class:`Parent` and ``arguments``.
    """

    def __init__(self, run: Callable[..., Awaitable[None]], *arguments: object) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=_main, args=(run, theirs, arguments), daemon=True)

    async def __aenter__(self) -> Self:
        self._process.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.join, _ENDS_S)
        self._connection.close()

    async def do(self, name: str) -> Any:
        """Tell it, and wait for the result."""
        self._connection.send(name)
        return await asyncio.to_thread(self._connection.recv)


def _main(run: Callable[..., Awaitable[None]], connection: Connection, arguments: tuple[object, ...]) -> None:
    async def main() -> None:
        await run(Parent(connection), *arguments)

    uvloop.run(main())
