"""RequestReader: bytes of one connection in, requests out.

llhttp parses; :mod:`gateway.edge.request_head` says what it lets through and may not pass. What is gathered is bounded:
heads, bodies, pipelined requests, and what comes without bringing any of these further (endless chunk extensions and
trailers). Whose turn it is, and what time it may take, is the connection's business.
"""

from __future__ import annotations

from collections import deque

import httptools

from gateway.edge.answer import Answer, AnsweredConnection
from gateway.edge.client_request import ClientRequest, body_too_large
from gateway.edge.fields import Header, fields_of
from gateway.edge.request_head import (
    MAX_HEAD_BYTES,
    MAX_HEADER_LINES,
    check_meaning,
    check_size,
    origin_form,
    too_large,
)
from gateway.errors import BadRequest, GatewayError

MAX_PIPELINED = 16


class RequestReader:
    """``waiting``: requests in order, of which the last may be ``incomplete``; who takes one out answers it.

    ``fault``: why nothing more can be read. What came whole before is not spoilt by it.
    """

    __slots__ = (
        "_body",
        "_connection",
        "_headers",
        "_max_body_bytes",
        "_parser",
        "_read_bytes",
        "_request",
        "_resumed",
        "_upgrading",
        "_url",
        "_vain_bytes",
        "fault",
        "in_head",
        "incomplete",
        "is_last",
        "waiting",
    )

    _request: ClientRequest  # while it is incomplete; longer, and its body would live with an idle connection

    def __init__(self, connection: AnsweredConnection, *, max_body_bytes: int) -> None:
        """``connection``: where the answers go."""
        self._connection = connection
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[Header] = []
        self._body: bytes | bytearray = b""
        self._upgrading = False  # the parser stops after this head
        self._resumed = False  # a fresh parser is being told how the body after such a head is framed
        self._read_bytes = 0  # size of the read that is being parsed
        self._vain_bytes = 0  # in whole reads since the one that began a head or brought body
        self.waiting: deque[ClientRequest] = deque()
        self.incomplete = False  # a head is in, its body is not
        self.in_head = False
        self.is_last = False  # the client has said that nothing follows
        self.fault: GatewayError | None = None

    @property
    def between_requests(self) -> bool:
        """Whether all that came has been taken."""
        return not (self.in_head or self.waiting or self.incomplete or self.fault)

    @property
    def body_bytes(self) -> int:
        """Of the body that is incomplete."""
        return len(self._body)

    @property
    def held_bytes(self) -> int:
        """Of bodies that wait or are incomplete."""
        return len(self._body) + sum(len(request.body) for request in self.waiting)

    def feed(self, data: bytes) -> None:
        """Parse one read's bytes; not to be called after a ``fault``."""
        self._read_bytes = size = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade()
            self.feed(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback raised
            if isinstance(cause, GatewayError):
                self.fault = cause.with_traceback(None)  # which holds this
            else:
                self.fault = BadRequest("Invalid HTTP request received.")
        else:
            if self.in_head or self.incomplete:
                self._vain_bytes += size
                if self._vain_bytes > MAX_HEAD_BYTES:
                    self.fault = too_large() if self.in_head else BadRequest("The chunks carry too much else.")

    def drop(self) -> None:
        """Let go of all that waits, and of what is incomplete: nothing more is read."""
        self.waiting.clear()
        self._body = b""

    def close(self) -> None:
        """As :meth:`drop`, and for good. The parser holds this object, so it is let go."""
        self.drop()
        del self._parser

    # httptools

    def on_message_begin(self) -> None:
        self.in_head = True
        self._url = b""
        self._headers = []
        self._vain_bytes = -self._read_bytes  # so that this read counts for nothing

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        if self._resumed:
            return
        headers = self._headers
        self._headers = []  # trailers go there, and are dropped
        if self._read_bytes > MAX_HEAD_BYTES or self._vain_bytes >= 0 or len(headers) > MAX_HEADER_LINES:
            check_size(self._url, headers)
        if len(self.waiting) == MAX_PIPELINED:
            raise _too_many()
        parser = self._parser
        version = parser.get_http_version()
        method = parser.get_method().decode()
        target = origin_form(method, self._url)
        fields = fields_of(headers)
        check_meaning(version, headers, fields)
        old = version == "1.0"
        keep_alive = parser.should_keep_alive()
        self.is_last = not keep_alive
        self._upgrading = b"upgrade" in fields and parser.should_upgrade()
        answer = Answer(self._connection, head_only=method == "HEAD", old=old, keep_alive=keep_alive)
        self._request = request = ClientRequest(method, target, headers, fields, answer)
        self.incomplete = True
        self.waiting.append(request)

    def on_body(self, data: bytes) -> None:
        self._vain_bytes = -self._read_bytes
        size = len(self._body) + len(data)
        limit = self._request.max_body_bytes or self._max_body_bytes
        if size > limit:
            raise body_too_large(limit)
        if len(self.waiting) > 1 and size + sum(len(request.body) for request in self.waiting) > self._max_body_bytes:
            raise _too_many()
        if not self._body:
            self._body = data  # most bodies come in one piece
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data  # and not a list: pieces may be single bytes

    def on_message_complete(self) -> None:
        if self._upgrading:
            return  # the parser stops here, before the body
        request = self._request
        del self._request
        request.body = bytes(self._body)
        request.complete = True
        self._body = b""
        self.incomplete = False

    def _ignore_upgrade(self) -> None:
        """Go on with a fresh parser that is told only how the body is framed.

        A server may ignore Upgrade (RFC 9110 section 7.8): Java's client offers h2c with its first request. llhttp
        cannot be told to.
        """
        framing = [h for h in self._request.headers if h[0].lower() in (b"content-length", b"transfer-encoding")]
        last = b"connection: close\r\n" if self.is_last else b""
        self._upgrading = False
        self._parser = httptools.HttpRequestParser(self)
        self._resumed = True
        self._parser.feed_data(
            b"POST / HTTP/1.1\r\n%b%b\r\n" % (last, b"".join(b"%b: %b\r\n" % header for header in framing))
        )
        self._resumed = False


def _too_many() -> BadRequest:
    return BadRequest("Too many pipelined requests.")
