"""TraceLines: the lines of a trace file, one JSON object each, read one at a time: such files may be huge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_LONGEST = 64 * 1024 * 1024  # bytes of a line; what is longer is no trace


class TraceError(ValueError):
    """A file is no trace: which file, which line, and what is wrong there."""

    def __init__(self, path: Path, line: int, wrong: str) -> None:
        super().__init__(f"{path}:{line}: {wrong}")


class TraceLines(Generic[T]):
    """Iterates over the lines as ``kind`` (a msgspec structure). Fields that it does not have are ignored, empty lines
    too; with ``skip_torn`` those that are no whole JSON, which ``torn`` counts. Raises :class:`TraceError`, and
    ``OSError`` where the file cannot be read.
    """

    def __init__(self, path: Path, kind: type[T], *, skip_torn: bool = False) -> None:
        self.path = path
        self.number = 0  # of the line read last, from 1
        self.torn = 0
        self._skip_torn = skip_torn
        self._decoder = msgspec.json.Decoder(kind)

    def __iter__(self) -> Iterator[T]:
        with self.path.open("rb") as file:
            while line := file.readline(_LONGEST):
                self.number += 1
                if line.strip() and (decoded := self._decoded(line)) is not None:
                    yield decoded

    def wrong(self, what: str) -> TraceError:
        """An error about the line read last."""
        return TraceError(self.path, self.number, what)

    def _decoded(self, line: bytes) -> T | None:
        try:
            return self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not self._skip_torn or isinstance(error, msgspec.ValidationError):
                raise self.wrong(str(error)) from None
            self.torn += 1
            return None
