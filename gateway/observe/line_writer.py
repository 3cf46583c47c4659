"""LineWriter: lines to a stream that may be slow or stuck, without ever keeping the event loop waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from select import PIPE_BUF
from typing import Protocol

_REST_S = 0.01


class Sink(Protocol):
    """What takes lines: a text stream, or as much of one."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class LineWriter:
    """A thread writes; whoever has a line only queues it. A full queue drops lines and counts them.

    Close it, so that what is queued gets out: it waits ``close_timeout_s`` at most for a reader that does not read.
    ``shared``: other processes write to the same stream, and no line may be torn by theirs. ``rest_s``: between two
    writes, since each wakes a thread that wants the loop's turn, and on few processors its place: measured, a rest of
    0.2 s in place of 0.01 spares a fifth of what a busy gateway's requests cost. ``on_broken`` is told once, by the
    thread, when lines cannot be written.
    """

    def __init__(
        self,
        out: Sink,
        *,
        most_queued: int = 10_000,
        close_timeout_s: float = 2.0,
        shared: bool = False,
        rest_s: float = _REST_S,
        on_broken: Callable[[Exception], None] | None = None,
    ) -> None:
        self._out = out
        self._most_queued = most_queued
        self._close_timeout_s = close_timeout_s
        self._shared = shared
        self._rest_s = rest_s
        self._on_broken = on_broken
        self._lines: deque[str] = deque()
        self._due = threading.Event()  # set: there are lines, or the end has come
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="line-writer", daemon=True)
        self._thread.start()
        self.dropped = 0

    def write(self, line: str) -> None:
        """Queue ``line``, which has no newline at its end."""
        if len(self._lines) >= self._most_queued:
            self.dropped += 1
            return
        self._lines.append(line)
        if not self._due.is_set():  # asking costs less than setting it again
            self._due.set()

    def close(self) -> bool:
        """No line after this one. Whether all that could be written was, and nobody writes any more."""
        self._ending.set()
        self._due.set()
        self._thread.join(self._close_timeout_s)
        return not self._thread.is_alive()

    def _write_all(self) -> None:
        open_ = True
        while open_:
            self._due.wait()
            self._due.clear()  # before looking: whatever comes from now on sets it again
            open_ = not self._ending.is_set()
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            for some in _atomic(lines) if self._shared else (lines,):
                self._write(some)
            if open_:
                self._ending.wait(self._rest_s)

    def _write(self, lines: Sequence[str]) -> None:
        text = "".join([f"{line}\n" for line in lines])
        try:
            try:
                self._out.write(text)
            except UnicodeEncodeError:  # the stream is not UTF-8
                self._out.write(text.encode("ascii", "backslashreplace").decode("ascii"))
            self._out.flush()
        except (OSError, ValueError) as error:  # the reader is gone, or the stream is closed
            self.dropped += len(lines)
            if self._on_broken is not None:
                self._on_broken(error)
                self._on_broken = None


def _atomic(lines: Sequence[str]) -> Iterator[list[str]]:
    """In pieces that a pipe takes in one: POSIX promises it for ``PIPE_BUF`` bytes."""
    some: list[str] = []
    size = 0
    for line in lines:
        line_size = 1 + (len(line) if line.isascii() else len(line.encode(errors="replace")))
        if some and size + line_size > PIPE_BUF:
            yield some
            some, size = [], 0
        some.append(line)
        size += line_size
    yield some
