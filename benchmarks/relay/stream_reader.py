"""StreamReader: one streamed answer as its client sees it, each event beside the moment when it was written."""

from __future__ import annotations

import asyncio
import time
from array import array
from dataclasses import dataclass, field
from typing import cast

import httptools

from benchmarks.mock_replica import STAMP

_STAMP_DIGITS = 16
_END_OF_EVENT = b"\n\n"
_DONE = b"data: [DONE]"


@dataclass(slots=True)
class Watch:
    """What all readers saw. ``is_steady``: all streams run; only then are gaps and delays kept. Seconds."""

    begun: int = 0
    ended: int = 0
    chunks: int = 0
    is_steady: bool = False
    longest_gap_s: float = 0.0  # between two events of a stream, at the client
    longest_written_gap_s: float = 0.0  # at the replica
    delays_s: array[float] = field(default_factory=lambda: array("d"))  # from written to read
    failures: list[str] = field(default_factory=list)


class StreamReader(asyncio.Protocol):
    """Asks once. ``chunks``: how many events must come before the end."""

    def __init__(self, request: bytes, chunks: int, watch: Watch) -> None:
        self._request = request
        self._chunks = chunks
        self._watch = watch
        self._parser = httptools.HttpResponseParser(self)
        self._rest = b""
        self._read_s = self._written_s = 0.0
        self._came = 0
        self._is_done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(_END_OF_EVENT)
        now = time.monotonic()
        for event in events:
            at = event.find(STAMP) + len(STAMP)
            if at >= len(STAMP):
                self._note(now, int(event[at : at + _STAMP_DIGITS]) / 1e6)
            elif event == _DONE:
                self._is_done = self._came == self._chunks
            else:
                self._watch.failures.append(f"after {self._came} events came {event[:200]!r}")

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200 or not self._is_done:
            self._watch.failures.append(f"ended with {status} after {self._came} of {self._chunks} events")
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._request:
            self._watch.failures.append(f"connection lost after {self._came} events: {exc}")
            self._end()

    def _end(self) -> None:
        self._request = b""
        self._watch.ended += 1
        self._watch.is_steady = False
        self.transport.abort()

    def _note(self, read_s: float, written_s: float) -> None:
        watch = self._watch
        watch.begun += not self._came
        self._came += 1
        watch.chunks += 1
        if watch.is_steady and self._read_s:
            watch.delays_s.append(read_s - written_s)
            watch.longest_gap_s = max(watch.longest_gap_s, read_s - self._read_s)
            watch.longest_written_gap_s = max(watch.longest_written_gap_s, written_s - self._written_s)
        self._read_s, self._written_s = read_s, written_s
