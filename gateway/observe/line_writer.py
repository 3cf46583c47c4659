"""LineWriter: lines to a stream that may be slow or stuck, without ever keeping the event loop waiting."""

from __future__ import annotations

import queue
import threading
import time
from typing import TextIO

_REST_S = 0.01  # between two writes: one wake-up for many lines, since each would take the loop's turn


class LineWriter:
    """A thread writes; whoever has a line only queues it. A full queue drops lines and counts them.

    Close it, so that what is queued gets out: it waits ``close_timeout_s`` at most for a reader that does not read.
    """

    def __init__(self, out: TextIO, *, most_queued: int = 10_000, close_timeout_s: float = 2.0) -> None:
        self._out = out
        self._most_queued = most_queued
        self._close_timeout_s = close_timeout_s
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
            self._write([line for line in lines if line is not None])
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
