"""Channel: what the supervisor and a worker tell each other, a JSON object a line over a socket pair.

It ends when either process ends, however it died: that is how the other learns of it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Generic, Literal, Self, TypeVar

import msgspec

_MOST_UNSENT_BYTES = 65_536


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's state, as it tells it every second and whenever it changes."""

    connections: int = 0
    ready: bool = False
    accepting: bool = False
    asks_to_leave: bool = False  # it was sent SIGTERM: a planned replacement of this worker alone
    drained: bool = False  # all answers are out; it waits for "end"


class Order(msgspec.Struct, frozen=True):
    """What the supervisor wants.

    accept: take connections though not ready, since nobody else does; retire: leave in favour of the others;
    stop: everybody leaves; interrupt: the same, without lingering; end: nothing more is wanted of a worker that has
    drained.
    """

    do: Literal["accept", "retire", "stop", "interrupt", "end"]


HeardT = TypeVar("HeardT", Report, Order)


class Channel(Generic[HeardT]):
    """One end. :meth:`open` it in a running event loop; close it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: type[HeardT]) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[HeardT] = msgspec.json.Decoder(heard)

    @classmethod
    async def open(cls, end: socket.socket, heard: type[HeardT]) -> Self:
        """``end`` is its own from here; ``heard``: what the other side says."""
        return cls(*await asyncio.open_unix_connection(sock=end), heard)

    @property
    def unsent_bytes(self) -> int:
        """What was said and did not get out yet."""
        return self._writer.transport.get_write_buffer_size()

    def say(self, message: Report | Order) -> None:
        """Tell the other side. One that does not read is told no more, until it does."""
        if not self._writer.transport.is_closing() and self.unsent_bytes < _MOST_UNSENT_BYTES:
            self._writer.write(msgspec.json.encode(message) + b"\n")

    async def hear(self) -> HeardT | None:
        """The next message; ``None`` when the other side is gone."""
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                return None
            if not line.endswith(b"\n"):
                return None
            try:
                return self._decoder.decode(line)
            except msgspec.DecodeError:  # not ours to understand
                continue

    def close(self) -> None:
        """What was said still gets out."""
        self._writer.close()
