"""LineWriter: lines to a stream that may be slow or stuck, without ever keeping the event loop waiting."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from select import PIPE_BUF
from typing import TextIO

_REST_S = 0.01  # between two writes: one wake-up for many lines, since each would take the loop's turn


class LineWriter:
    """A thread writes; whoever has a line only queues it. A full queue drops lines and counts them.

    Close it, so that what is queued gets out: it waits ``close_timeout_s`` at most for a reader that does not read.
    ``shared``: other processes write to the same stream, and no line may be torn by theirs.
    """

    def __init__(
        self, out: TextIO, *, most_queued: int = 10_000, close_timeout_s: float = 2.0, shared: bool = False
    ) -> None:
        self._out = out
        self._most_queued = most_queued
        self._close_timeout_s = close_timeout_s
        self._shared = shared
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="line-writer", daemon=True)
        self._thread.start()
        self.dropped = 0

    def write(self, line: str) -> None:
        """Queue ``line``, which has no newline at its end."""
        if self._lines.qsize() < self._most_queued:
            self._lines.put(line)
        else:
            self.dropped += 1

    def close(self) -> None:
        """No line after this one."""
        self._lines.put(None)
        self._thread.join(self._close_timeout_s)

    def _write_all(self) -> None:
        open_ = True
        while open_:
            lines = [self._lines.get()]
            while not self._lines.empty():
                lines.append(self._lines.get())
            open_ = None not in lines
            whole = [line for line in lines if line is not None]
            for some in _atomic(whole) if self._shared else (whole,):
                self._write(some)
            if open_:
                time.sleep(_REST_S)

    def _write(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        try:
            try:
                self._out.write(text)
            except UnicodeEncodeError:  # the stream is not UTF-8
                self._out.write(text.encode("ascii", "backslashreplace").decode("ascii"))
            self._out.flush()
        except (OSError, ValueError):  # the reader is gone, or the stream is closed
            self.dropped += len(lines)


def _atomic(lines: Sequence[str]) -> Iterator[list[str]]:
    """In pieces that a pipe takes in one: POSIX promises it for ``PIPE_BUF`` bytes."""
    some: list[str] = []
    size = 0
    for line in lines:
        line_size = len(line.encode(errors="replace")) + 1
        if some and size + line_size > PIPE_BUF:
            yield some
            some, size = [], 0
        some.append(line)
        size += line_size
    yield some
