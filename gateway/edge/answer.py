"""Answer: what one client request is answered, written straight to the client's transport.

It owns the framing of the answer, and tells its writer when the client reads too slowly or is gone. It does not know
where the bytes come from, nor what else happens on the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from gateway.edge.fields import Header
from gateway.edge.outbox import Outbox

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_CLOSE = b"connection: close\r\n"
_KEEP_ALIVE = b"connection: keep-alive\r\n"


class AnsweredConnection(Protocol):
    """The connection that an answer goes to."""

    writing_paused: bool

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def outbox(self) -> Outbox: ...

    def answered(self, *, close: bool) -> None:
        """The answer's last byte is written; ``close``: the client was told that it is the last on its connection."""

    def cut(self, *, reset: bool) -> None:
        """End the connection in the middle of an answer; ``reset``: an orderly end would pass for the answer's."""


class Source(Protocol):
    """Where an answer's bytes come from."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Answer:
    """``start``, then ``send`` until ``last``; or ``truncate`` at any point. Once ``ended`` it writes nothing.

    ``on_gone`` is called once, synchronously, when the client left before the end; ``extra_headers`` are in every
    head.
    """

    __slots__ = (
        "_chunked",
        "_connection",
        "_connection_line",
        "_head",
        "_outbox",
        "_silent",
        "_source",
        "_transport",
        "_until_close",
        "body_bytes",
        "ended",
        "extra_headers",
        "gone",
        "old",
        "on_gone",
        "started",
        "status",
    )

    def __init__(
        self, connection: AnsweredConnection, *, head_only: bool = False, old: bool = False, keep_alive: bool = True
    ) -> None:
        """``head_only``: to HEAD; ``old``: to an HTTP/1.0 client; ``keep_alive``: the client may ask again."""
        self._connection = connection
        self._transport = connection.transport
        self._outbox = connection.outbox
        self.old = old
        # HTTP/1.0 ends a connection unless told otherwise, and HTTP/1.1 keeps it.
        self._connection_line = (_KEEP_ALIVE if old else b"") if keep_alive else _CLOSE
        self._head = b""
        self._chunked = False
        self._until_close = False
        self._silent = head_only  # an answer that has no body, whatever is sent
        self._source: Source | None = None
        self.on_gone: Callable[[], None] | None = None
        self.extra_headers: Sequence[Header] = ()
        self.status = 0
        self.body_bytes = 0
        self.started = False
        self.ended = False
        self.gone = False  # the client left before the end

    def start(self, status: int, headers: Sequence[Header], *, has_length: bool, reason: bytes = b"") -> None:
        """Status and headers. They leave with the first bytes of the body, or by :meth:`flush`.

        Without a length an HTTP/1.1 client gets chunks (RFC 9112 section 7.1), and an older one a body that ends with
        the connection.
        """
        self.started = True
        self.status = status
        if status in (204, 304):
            self._silent = True
        framing = b""
        if not has_length and not self._silent:
            if self.old:
                self._until_close = True
                self._connection_line = _CLOSE
            else:
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
        if self.extra_headers:
            headers = [*headers, *self.extra_headers]
        self._head = b"HTTP/1.1 %d %b\r\n%b%b%b%b\r\n" % (
            status,
            reason or _REASONS.get(status, b""),
            b"\r\n".join(map(b": ".join, headers)),
            b"\r\n" if headers else b"",
            framing,
            self._connection_line,
        )

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
            self._outbox.write(self._transport, data)
        if last:
            self._end()
            self._connection.answered(close=self._connection_line is _CLOSE)

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
            (b"date", formatdate(usegmt=True).encode()),  # RFC 9110 section 6.6.1
            (b"content-type", content_type),
            (b"content-length", b"%d" % len(body)),
        ]
        self.start(status, [*ours, *headers], has_length=True)
        self.send(body, last=True)

    def truncate(self) -> None:
        """Break the connection, so that the client cannot take what it has for the whole answer."""
        if self.ended:
            return
        self._end()
        self._connection.cut(reset=self._until_close)

    def watch(self, source: Source) -> None:
        """Pause ``source`` when the client reads too slowly (at once, if it does), and resume it when it caught up."""
        self._source = source
        if self._connection.writing_paused:
            source.pause_reading()

    def end_connection(self) -> None:
        """Let this be the last answer on its connection, and say so if its head has not gone yet."""
        self._connection_line = _CLOSE

    # Called by the connection

    def writing_paused(self) -> None:
        if self._source is not None:
            self._source.pause_reading()

    def writing_resumed(self) -> None:
        if self._source is not None:
            self._source.resume_reading()

    def lost(self) -> None:
        """The client's connection is no more: tell whoever works for this answer."""
        if self.ended:
            return
        self.gone = True
        on_gone = self.on_gone
        self._end()
        if on_gone is not None:
            on_gone()

    def _end(self) -> None:
        """Forget who worked for it: they hold it, and would live as long."""
        self.ended = True
        self._source = self.on_gone = None
