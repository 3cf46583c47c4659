"""Inheritance: the sockets that a worker is born with, and how its command line names them."""

from __future__ import annotations

import socket
from typing import NamedTuple, Self

from gateway.asgi_server import ListenSockets


class Inheritance(NamedTuple):
    """``slot``: which of the workers it is, from 1. The rest are file descriptors."""

    slot: int
    public: int
    metrics: int
    admin: int
    channel: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """As :meth:`__str__` wrote it. Raises ``ValueError``."""
        numbers = [int(number) for number in text.split(":")]
        if len(numbers) != len(cls._fields):
            raise ValueError(f"must be {':'.join(cls._fields)}")
        return cls(*numbers)

    def __str__(self) -> str:
        return ":".join(map(str, self))

    def listen_sockets(self) -> ListenSockets:
        """Take possession. Raises ``OSError`` where a descriptor is no socket."""
        return ListenSockets(*(socket.socket(fileno=number) for number in (self.public, self.metrics, self.admin)))

    def channel_end(self) -> socket.socket:
        """Take possession. Raises ``OSError`` where it is no socket."""
        return socket.socket(fileno=self.channel)
