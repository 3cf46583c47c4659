"""LineWriter: lines to a stream that may be slow or stuck, without ever keeping the event loop waiting."""

from __future__ import annotations

import queue
import threading
from typing import TextIO


class LineWriter:
    """A thread writes; whoever has a line only queues it. A full queue drops lines and counts them.

    Close it, so that what is queued gets out: it waits ``close_timeout_s`` at most for a reader that does not read.
    """

    def __init__(self, out: TextIO, *, most_queued: int = 10_000, close_timeout_s: float = 2.0) -> None:
        self._out = out
        self._close_timeout_s = close_timeout_s
        self._lines: queue.Queue[str | None] = queue.Queue(most_queued)
        self._thread = threading.Thread(target=self._write_all, name="line-writer", daemon=True)
        self._thread.start()
        self.dropped = 0

    def write(self, line: str) -> None:
        """Queue ``line``, which has no newline at its end."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """No line after this one."""
        try:
            self._lines.put(None, timeout=self._close_timeout_s)
        except queue.Full:
            return
        self._thread.join(self._close_timeout_s)

    def _write_all(self) -> None:
        line = self._lines.get()
        while line is not None:
            try:
                self._out.write(f"{line}\n")
                if self._lines.empty():
                    self._out.flush()
            except (OSError, ValueError):  # the reader is gone, or the stream is closed
                self.dropped += 1
            line = self._lines.get()
