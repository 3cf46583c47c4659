"""HashSecret: what keys the block hashes. Processes understand each other's hashes only under the same one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Self

_RANDOM_BYTES = 16


class HashSecret:
    """It may change while the process runs: everything that was hashed under the old one is then void."""

    def __init__(self, value: bytes) -> None:
        self.value = value
        self.id = _id(value)
        self._listeners: list[Callable[[], None]] = []

    @classmethod
    def random(cls) -> Self:
        return cls(secrets.token_bytes(_RANDOM_BYTES))

    def __repr__(self) -> str:
        return f"<HashSecret {self.id}>"

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back after every change, in the order in which listeners came."""
        self._listeners.append(callback)

    def use(self, value: bytes) -> None:
        """Hash under ``value`` from now on."""
        if value == self.value:
            return
        self.value = value
        self.id = _id(value)
        for callback in self._listeners:
            callback()


def _id(value: bytes) -> str:
    """Eight hexadecimal digits by which processes compare secrets without telling them."""
    return blake2b(value, digest_size=4, person=b"secret id").hexdigest()
