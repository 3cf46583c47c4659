"""Load: clients that ask again as soon as they are answered, all in this process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple, Self, cast

import httptools

from benchmarks.relay.prompts import Prompts

_LATEST_S = 60.0
_MATCHED = b",l0="  # in x-prefixway-matched


class Load(NamedTuple):
    """``per``: what one answer counts for, in ``unit``."""

    name: str
    unit: str
    connections: int
    per: int
    stream: bool


@dataclass(slots=True)
class Driven:
    """What came of a load. ``matched``: answers whose receipt says that their replica held some of the prompt."""

    answers: int = 0
    matched: int = 0
    failure: str = ""
    going: bool = True
    waiting: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, prompts: Prompts, load: Load, driven: Driven) -> None:
        self._prompts = prompts
        self._stream = load.stream
        self._driven = driven
        self._parser = httptools.HttpResponseParser(self)
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self) -> None:
        self._begun = False
        self.transport.write(self._prompts.request(stream=self._stream))

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            at = data.find(_MATCHED)
            self._driven.matched += at >= 0 and data[at + len(_MATCHED)] != ord("0")
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        driven = self._driven
        driven.answers += 1
        if (status := self._parser.get_status_code()) != 200:
            self._fail(f"answered {status}")
        elif driven.going:
            self.ask()
        else:
            driven.waiting -= 1
            if not driven.waiting:
                driven.done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._driven.waiting:
            self._fail(f"a connection was lost: {exc}")

    def _fail(self, why: str) -> None:
        self._driven.failure = self._driven.failure or why
        self._driven.done.set()


class Driver:
    """``async with Driver(...) as driver: await driver.run(seconds)``: connected before it runs."""

    def __init__(self, port: int, load: Load, prompts: Prompts) -> None:
        self._port = port
        self._load = load
        self._prompts = prompts
        self._clients: list[Client] = []
        self.driven = Driven()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for _ in range(self._load.connections):
            _, client = await loop.create_connection(self._client, "127.0.0.1", self._port)
            self._clients.append(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.driven.waiting = 0
        for client in self._clients:
            client.transport.abort()
        await asyncio.sleep(0)

    async def run(self, seconds: float) -> Driven:
        """Ask for so long, then wait for what is still to come. Any failure ends the benchmark."""
        driven = self.driven
        driven.waiting = len(self._clients)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._stop)
        for client in self._clients:
            client.ask()
        async with asyncio.timeout(seconds + _LATEST_S):
            await driven.done.wait()
        if driven.failure:
            raise SystemExit(f"port {self._port}, {self._load.name}: {driven.failure}")
        return driven

    def _client(self) -> Client:
        return Client(self._prompts, self._load, self.driven)

    def _stop(self) -> None:
        self.driven.going = False
