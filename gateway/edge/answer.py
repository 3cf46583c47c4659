"""Answer: what one client request is answered, written straight to the client's transport.

It owns the framing of the answer and its share of uvicorn's bookkeeping for the request (the ``cycle``),
and it tells its writer when the client reads too slowly or is gone. ASGI's ``send`` would cost more per
chunk than the relaying itself, so nothing here uses it. It does not know where the bytes come from.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from http import HTTPStatus

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

Header = tuple[bytes, bytes]

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


class Answer:
    """``start``, then ``send`` until ``last``; or ``truncate`` at any point. Once ``ended`` it writes nothing."""

    __slots__ = (
        "_chunked",
        "_cycle",
        "_flow",
        "_head",
        "_pause",
        "_resume",
        "_silent",
        "_task",
        "_transport",
        "_until_close",
        "body_bytes",
        "ended",
        "gone",
        "started",
        "status",
    )

    def __init__(self, cycle: RequestResponseCycle, flow: FlowControl) -> None:
        self._cycle = cycle
        self._flow = flow
        self._transport = cycle.transport
        self._head = b""
        self._chunked = False
        self._until_close = False
        self._silent = False  # an answer that has no body, whatever is sent
        self._task: asyncio.Task[None] | None = None
        self._pause: Callable[[], None] | None = None
        self._resume: Callable[[], None] | None = None
        self.status = 0
        self.body_bytes = 0
        self.started = False
        self.ended = False
        self.gone = False  # the client left before the end

    @property
    def request_complete(self) -> bool:
        """Whether all of the request is in."""
        return not self._cycle.more_body

    def run_by(self, task: asyncio.Task[None] | None) -> None:
        """Name the task to cancel when the client is gone."""
        self._task = task

    def start(self, status: int, headers: Sequence[Header], *, has_length: bool, reason: bytes = b"") -> None:
        """Status and headers. They leave with the first bytes of the body, or by :meth:`flush`.

        Without a length an HTTP/1.1 client gets chunks, and an older one a body that ends with the
        connection.
        """
        cycle = self._cycle
        scope = cycle.scope
        self.started = cycle.response_started = True
        self.status = status
        cycle.waiting_for_100_continue = False
        self._silent = scope["method"] == "HEAD" or status in (204, 304)
        lines = [b"HTTP/1.1 %d %b" % (status, reason or _REASONS.get(status, b""))]
        lines += [b"%b: %b" % header for header in headers]
        if not has_length and not self._silent:
            if scope["http_version"] == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked")
            else:
                self._until_close = True
                cycle.keep_alive = False
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        lines.append(b"\r\n")
        self._head = b"\r\n".join(lines)

    def send(self, data: bytes, last: bool) -> None:
        """Write a piece of the body, at once. ``last`` ends the answer."""
        if self.ended:
            return
        if self._silent:
            data = b""
        size = len(data)
        self.body_bytes += size
        if self._chunked:
            if size:
                data = b"%x\r\n%b\r\n0\r\n\r\n" % (size, data) if last else b"%x\r\n%b\r\n" % (size, data)
            elif last:
                data = b"0\r\n\r\n"
        if self._head:
            data = self._head + data
            self._head = b""
        if data:
            self._transport.write(data)
        if last:
            self._end()

    def flush(self) -> None:
        """Let the head go without waiting for a body."""
        self.send(b"", last=False)

    def respond(
        self,
        status: int,
        body: bytes,
        headers: Sequence[Header] = (),
        *,
        content_type: bytes = b"application/json",
    ) -> None:
        """A whole answer of our own."""
        if self.ended:
            return
        ours = [
            *self._cycle.default_headers,
            (b"content-type", content_type),
            (b"content-length", b"%d" % len(body)),
        ]
        self.start(status, [*ours, *headers], has_length=True)
        self.send(body, last=True)

    def truncate(self) -> None:
        """Break the connection, so that the client cannot take what it has for the whole answer."""
        if self.ended:
            return
        self.ended = True
        self._cycle.disconnected = True  # or uvicorn would complain that the answer has no end
        if self._until_close:
            # Only a reset tells this client that there should have been more, and only this option makes a close one.
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def watch(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        """Call ``pause`` when the client reads too slowly (at once, if it does) and ``resume`` when it caught up."""
        self._pause, self._resume = pause, resume
        if self._flow.write_paused:
            pause()

    def end_connection(self) -> None:
        """Let this be the last answer on its connection."""
        self._cycle.keep_alive = False

    # Called by the client's protocol

    def writing_paused(self) -> None:
        if self._pause is not None:
            self._pause()

    def writing_resumed(self) -> None:
        if self._resume is not None:
            self._resume()

    def lost(self) -> None:
        """The client's connection is no more: stop whoever works for this answer."""
        if self.ended:
            return
        self.ended = self.gone = True
        self._cycle.disconnected = True
        self._cycle.message_event.set()
        if self._task is not None:
            self._task.cancel()

    def _end(self) -> None:
        cycle = self._cycle
        self.ended = True
        self._pause = self._resume = None
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
