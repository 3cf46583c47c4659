"""UpstreamConnection: one HTTP/1.1 connection to a server, carrying one request at a time.

It parses an answer and pushes it to a receiver as it comes, synchronously, from the event loop: no task and
no queue stand between the socket and the client. It does not know what a client, a replica or a retry is.

Rules that httptools leaves to its user (RFC 9112):

- 1xx answers are interim; 101 is refused, for we never ask for it. A status has to be one: 100 to 599 (RFC 9110
  section 15).
- An answer with neither length nor chunks ends with the connection; any other answer that does is cut off.
- The parser cannot know that a HEAD was asked: its answer ends with its head, and so does the connection.
- Bytes after an answer, or without a request, condemn the connection.
"""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple, Protocol, cast

import httptools

from gateway.edge.dead_hosts import notice_dead_hosts
from gateway.edge.fields import Header, fields_of
from gateway.edge.outbox import Outbox
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome

MAX_HEAD_BYTES = 65_536
_AT_ONCE_SWEEPS = 2  # of the owner's
_JOIN_BELOW_BYTES = 16_384  # a body smaller than this shares its head's packet

_REASON = re.compile(rb"[\t -~\x80-\xff]*")  # RFC 9112 section 4: no other control characters


class ResponseHead(NamedTuple):
    """Status line and headers, as they came: order, case and bytes. ``fields``: by their lower-case names."""

    status: int
    reason: bytes
    headers: list[Header]
    fields: dict[bytes, bytes]

    @property
    def has_length(self) -> bool:
        """Whether a Content-Length is among them."""
        return b"content-length" in self.fields


class UpstreamError(Exception):
    """An attempt failed on the wire, or, with the outcome ``STALE``, did not begin: the kept connection was gone."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Receiver(Protocol):
    """Who takes an answer: ``head`` once, ``body`` until it is complete; ``broken`` at any point ends it too."""

    def head(self, head: ResponseHead) -> None: ...

    def body(self, data: bytes, complete: bool) -> None: ...

    def broken(self, error: UpstreamError) -> None: ...


class Owner(Protocol):
    """Who keeps connections."""

    @property
    def outbox(self) -> Outbox: ...

    def released(self, connection: UpstreamConnection) -> None:
        """It is free for another request."""
        ...

    def lost(self, connection: UpstreamConnection) -> None:
        """It is no more."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """See the module. Used once connected; written by the event loop's callbacks and the caller of :meth:`send`."""

    __slots__ = (
        "_body_begun",
        "_complete",
        "_headers",
        "_interim",
        "_keep",
        "_method",
        "_new_head",
        "_owner",
        "_parser",
        "_pieces",
        "_reason",
        "_receiver",
        "_requests",
        "_transport",
        "_until_eof",
        "has_body",
        "idle_since_s",
        "origin",
        "reading_paused",
        "received_bytes",
        "silent_sweeps",
        "swept_bytes",
    )

    _transport: asyncio.Transport
    _new_head: ResponseHead | None  # parsed, and not yet handed over
    _headers: list[Header]

    def __init__(self, origin: Origin, owner: Owner) -> None:
        self.origin = origin
        self.idle_since_s = 0.0
        self.received_bytes = 0  # of the answer awaited, heads and frames included
        self.has_body = False  # whether any byte of that answer's body came
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
            self._owner.outbox.write(self._transport, head + body)
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
        if outcome is Outcome.BROKEN and self._was_closed_before():
            outcome = Outcome.STALE
        self.abort()
        if receiver is not None:
            receiver.broken(UpstreamError(outcome, f"{self.origin.netloc}: {message}"))

    def _was_closed_before(self) -> bool:
        """Whether a kept connection broke at once, without a byte: then the server had closed it while it was idle, and
        has not seen the request (RFC 9112 section 9.3.1). One that breaks later may have begun to work.
        """
        return self._requests > 1 and not self.received_bytes and self.silent_sweeps <= _AT_ONCE_SWEEPS

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
        notice_dead_hosts(transport.get_extra_info("socket"), takes_all=True)

    def data_received(self, data: bytes) -> None:
        """Runs for every chunk of every stream: what is not needed for the next few bytes is not done here."""
        receiver = self._receiver
        if receiver is None:
            self.abort()
            return
        self.received_bytes += len(data)
        error = ""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as stopped:
            error = _fault(stopped)
        if self._new_head is not None:
            head, self._new_head = self._new_head, None
            receiver.head(head)
            receiver = self._receiver  # it may have given up
        pieces = self._pieces
        if receiver is not None and (pieces or self._complete):
            self.has_body = True
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            receiver.body(data, self._complete)
        if self._complete:
            self._release(clean=not error)
        elif error:
            self.fail(Outcome.BROKEN, error)
        elif not self._body_begun and self.received_bytes > 2 * MAX_HEAD_BYTES:
            self.fail(Outcome.BROKEN, "headers too large")

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lost(self)
        del self._parser  # it holds this object
        if exc is None and self._receiver is not None and self._until_eof:
            self._end_with_connection(self._receiver)
        else:
            self.fail(Outcome.BROKEN, "the connection was reset" if exc else "the connection ended too soon")

    def _end_with_connection(self, receiver: Receiver) -> None:
        try:
            receiver.body(b"", True)
        except BaseException:
            self.fail(Outcome.BROKEN, "its end could not be passed on")
            raise
        self._receiver = None

    # httptools: these only collect, so that the receiver is called with the parser at rest

    def on_message_begin(self) -> None:
        if self._complete:
            raise _NotAnAnswerError("bytes after the answer")

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body_begun:
            return  # a trailer
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not 100 <= status <= 599:
            raise _NotAnAnswerError("a status that is none")
        if status < 200:
            self._interim = True
            return
        headers = self._headers
        if self.received_bytes > MAX_HEAD_BYTES:
            _check_size(headers)
        fields = fields_of(headers)
        chunked = b"transfer-encoding" in fields
        if chunked:
            _check_coding(headers)
        self._body_begun = True
        self._until_eof = not (chunked or b"content-length" in fields or status in (204, 304))
        reason = self._reason if _REASON.fullmatch(self._reason) else b""
        self._new_head = ResponseHead(status, reason, headers, fields)
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
        self.has_body = False
        self.received_bytes = self.swept_bytes = 0
        self.silent_sweeps = 0
        self._begin_head()

    def _begin_head(self) -> None:
        self._interim = False
        self._reason = b""
        self._headers = []

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


def _fault(stopped: Exception) -> str:
    """What was wrong with the bytes."""
    if isinstance(stopped, httptools.HttpParserUpgrade):
        return "it switched protocols unasked"
    return f"not HTTP: {stopped.__context__ or stopped}"


def _check_size(headers: list[Header]) -> None:
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEAD_BYTES:
        raise _NotAnAnswerError("headers too large")


def _check_coding(headers: list[Header]) -> None:
    for name, value in headers:
        if name.lower() == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise _NotAnAnswerError("a transfer coding other than chunked")
