"""UpstreamConnection: one HTTP/1.1 connection to a server, carrying one request at a time.

It parses an answer and pushes it to a receiver as it comes, synchronously, from the event loop: no task and
no queue stand between the socket and the client. It does not know what a client, a replica or a retry is.

Rules that httptools leaves to its user (RFC 9112):

- 1xx answers are interim; 101 is refused, for we never ask for it.
- An answer with neither length nor chunks ends with the connection; any other answer that does is cut off.
- The parser cannot know that a HEAD was asked: its answer ends with its head, and so does the connection.
- Bytes after an answer, or without a request, condemn the connection.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol, cast

import httptools

from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome

MAX_HEAD_BYTES = 65_536
_JOIN_BELOW_BYTES = 16_384  # a body smaller than this shares its head's packet

Header = tuple[bytes, bytes]


class ResponseHead(NamedTuple):
    """Status line and headers, as they came: order, case and bytes. ``has_length``: a Content-Length is among them."""

    status: int
    reason: bytes
    headers: list[Header]
    has_length: bool


class UpstreamError(Exception):
    """An attempt failed on the wire. ``resendable``: a kept connection was gone before it gave a byte."""

    def __init__(self, outcome: Outcome, message: str, *, resendable: bool = False) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.resendable = resendable


class Receiver(Protocol):
    """Who takes an answer: ``head`` once, ``body`` until it is complete; ``broken`` at any point ends it too."""

    def head(self, head: ResponseHead) -> None: ...

    def body(self, data: bytes, complete: bool) -> None: ...

    def broken(self, error: UpstreamError) -> None: ...


class Owner(Protocol):
    """Who keeps connections."""

    def released(self, connection: UpstreamConnection) -> None:
        """It is free for another request."""
        ...

    def lost(self, connection: UpstreamConnection) -> None:
        """It is no more."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """See the module. Used once connected; written by the event loop's callbacks and the caller of :meth:`send`."""

    _transport: asyncio.Transport
    _new_head: ResponseHead | None  # parsed, and not yet handed over

    def __init__(self, origin: Origin, owner: Owner) -> None:
        self.origin = origin
        self.idle_since_s = 0.0
        self.received_bytes = 0  # of the answer awaited, heads and frames included
        self.silent_sweeps = 0  # kept by the owner
        self.swept_bytes = 0  # kept by the owner
        self.reading_paused = False
        self._owner = owner
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._requests = 0
        self._pieces: list[bytes] = []
        self._begin("")

    def __repr__(self) -> str:
        state = "closed" if self.closed else "busy" if self.busy else "idle"
        return f"<UpstreamConnection {self.origin.netloc} {state}, {self._requests} requests>"

    @property
    def closed(self) -> bool:
        return self._transport.is_closing()

    @property
    def busy(self) -> bool:
        return self._receiver is not None

    def send(self, head: bytes, body: bytes, receiver: Receiver, *, method: str = "POST") -> None:
        """Write a whole request; its answer goes to ``receiver``. The connection must be neither closed nor busy."""
        self._begin(method)
        self._receiver = receiver
        self._requests += 1
        if len(body) < _JOIN_BELOW_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def abort(self) -> None:
        """Drop the connection at once. The receiver hears nothing more."""
        self._receiver = None
        self._transport.abort()

    def fail(self, outcome: Outcome, message: str) -> None:
        """Drop the connection and tell the receiver."""
        receiver = self._receiver
        resendable = outcome is Outcome.BROKEN and self._requests > 1 and not self.received_bytes
        self.abort()
        if receiver is not None:
            receiver.broken(UpstreamError(outcome, f"{self.origin.netloc}: {message}", resendable=resendable))

    def pause_reading(self) -> None:
        if not self.reading_paused and not self._transport.is_closing():
            self.reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.reading_paused and not self._transport.is_closing():
            self.reading_paused = False
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._receiver is None:
            self.abort()
            return
        self.received_bytes += len(data)
        error = self._parse(data)
        self._deliver()
        if self._complete:
            self._release(clean=not error)
        elif error:
            self.fail(Outcome.BROKEN, error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        receiver = self._receiver
        if exc is None and receiver is not None and self._until_eof:
            self._receiver = None
            receiver.body(b"", True)
        else:
            self.fail(Outcome.BROKEN, "the connection was reset" if exc else "the connection ended too soon")

    # httptools: these only collect, so that the receiver is called with the parser at rest

    def on_message_begin(self) -> None:
        if self._complete:
            raise _NotAnAnswerError("bytes after the answer")

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body_begun:
            return  # a trailer
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _NotAnAnswerError("headers too large")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._interim = True
            return
        has_length, chunked = _framing(self._headers)
        self._body_begun = True
        self._until_eof = not (has_length or chunked or status in (204, 304))
        self._new_head = ResponseHead(status, self._reason, self._headers, has_length)
        if self._method == "HEAD":
            self._complete = True
            raise _NotAnAnswerError("a HEAD is answered; what follows would be misread")

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._interim:
            self._begin_head()
            return
        self._complete = True
        self._keep = self._parser.should_keep_alive()

    # The rest

    def _begin(self, method: str) -> None:
        self._method = method
        self._complete = False
        self._keep = False
        self._until_eof = False
        self._body_begun = False
        self._new_head = None
        self.received_bytes = 0
        self.silent_sweeps = 0
        self._begin_head()

    def _begin_head(self) -> None:
        self._interim = False
        self._reason = b""
        self._headers: list[Header] = []
        self._head_bytes = 0

    def _parse(self, data: bytes) -> str:
        """Feed the parser; "" or what is wrong."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return "it switched protocols unasked"
        except httptools.HttpParserError as error:
            return f"not HTTP: {error.__context__ or error}"
        if not self._body_begun and self.received_bytes > 2 * MAX_HEAD_BYTES:
            return "headers too large"
        return ""

    def _deliver(self) -> None:
        """Hand over what one read brought, in as few calls as it needs."""
        if self._new_head is not None and self._receiver is not None:
            head, self._new_head = self._new_head, None
            self._receiver.head(head)
        if (self._pieces or self._complete) and self._receiver is not None:
            pieces = self._pieces
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._receiver.body(data, self._complete)

    def _release(self, *, clean: bool) -> None:
        self._receiver = None
        if not clean or self._transport.get_write_buffer_size():
            self._transport.abort()  # it would go on sending a body that was answered before its end
        elif self._keep and not self._transport.is_closing():
            self.resume_reading()
            self._owner.released(self)
        else:
            self._transport.close()


class _NotAnAnswerError(Exception):
    """Raised through the parser to stop it."""


def _framing(headers: list[Header]) -> tuple[bool, bool]:
    """Whether a Content-Length and whether chunks frame the body."""
    has_length = chunked = False
    for name, value in headers:
        if len(name) == 14 and name.lower() == b"content-length":
            has_length = True
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise _NotAnAnswerError("a transfer coding other than chunked")
            chunked = True
    return has_length, chunked
