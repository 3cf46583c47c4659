"""ClientProtocol: uvicorn's HTTP/1.1 server protocol with direct answers and the mends a proxy needs.

uvicorn owns parsing, keep-alive, pipelining and body delivery. This subclass gives every request an
:class:`Answer` (``scope["extensions"]``) and tells it when the client is slow or gone. It also mends,
against uvicorn 0.54:

- a client that pipelines a request and leaves is noticed by the request that runs, not by the one that
  waits;
- ``Upgrade: h2c`` (sent by Java's and others' HTTP clients) is ignored, and the body after it is read;
- head bytes are bounded (431); HTTP/1.1 without exactly one Host is refused (400); both in OpenAI's shape;
- header names keep the case they came in, for whoever they are passed on to.

It leans on attributes that uvicorn does not promise: the version is pinned to a minor one, and tests hold
the contract.
"""

from __future__ import annotations

from typing import cast

import httptools
from uvicorn._types import ASGI3Application, HTTPScope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.edge.answer import Answer
from gateway.errors import BadRequest, GatewayError, HeadersTooLarge

MAX_HEAD_BYTES = 65_536
MAX_PIPELINED = 16
_LINGER_S = 2.0
_ANSWER = "prefixway.answer"


def take_answer(scope: HTTPScope) -> Answer:
    """The answer to write for the request of ``scope``. Taken out: left there it would keep itself alive."""
    extensions = cast("dict[str, object]", scope["extensions"])
    return cast("Answer", extensions.pop(_ANSWER))


class ClientProtocol(HttpToolsProtocol):
    """One client connection. See the module."""

    _answer: Answer | None = None  # of the request that runs
    _in_head = False
    _head_began = False  # in the read that is being parsed
    _head_bytes = 0
    _fragment_bytes = 0
    _hosts = 0
    _body_only = False  # a fresh parser is being told how a body is framed
    _rejection: GatewayError | None = None
    _refused = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None:
            self._answer.lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._answer is not None:
            self._answer.writing_paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer is not None:
            self._answer.writing_resumed()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._head_began = False
        try:
            self.parser.feed_data(data)
            if self._in_head and not self._head_began:
                self._count_fragment(len(data))
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except (httptools.HttpParserError, GatewayError):
            self._refuse(self._rejection or BadRequest("Invalid HTTP request received."))

    def part(self) -> None:
        """Say in the answer, if its head is not out yet, that it is the last on this connection."""
        if self._answer is not None and not self._answer.started:
            self._answer.end_connection()

    # httptools

    def on_message_begin(self) -> None:
        if self._body_only:
            return
        super().on_message_begin()
        self._in_head = self._head_began = True
        self._head_bytes = self._fragment_bytes = self._hosts = 0

    def on_url(self, url: bytes) -> None:
        if not self._body_only:
            self.url += url
            self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer, or the head that a body-only parser was started with
        self._count_head(len(name) + len(value))
        if len(name) == 4 and name.lower() == b"host":
            self._hosts += 1
        elif len(name) == 6 and name.lower() == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._body_only:
            return
        self._in_head = False
        if self._hosts != 1 and self.parser.get_http_version() == "1.1":
            self._reject(BadRequest("A request needs exactly one Host header."))
        super().on_headers_complete()
        if self.pipeline:
            self._keep_watch()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # the parser stops here at an upgrade, before the body
        super().on_message_complete()

    # uvicorn

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answer = Answer(cycle, self.flow)
        cycle.scope["extensions"] = cast("dict[str, dict[object, object]]", {_ANSWER: self._answer})
        super()._start_asgi_task(cycle, app)

    def _should_upgrade(self) -> bool:
        return False

    # The mends

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._reject(HeadersTooLarge(f"The request's head is larger than {MAX_HEAD_BYTES} bytes."))

    def _count_fragment(self, size: int) -> None:
        """The parser gives headers whole: bound what it gathers for one that never ends."""
        self._fragment_bytes += size
        if self._fragment_bytes > MAX_HEAD_BYTES:
            self._reject(HeadersTooLarge(f"The request's head is larger than {MAX_HEAD_BYTES} bytes."))

    def _keep_watch(self) -> None:
        """uvicorn stops reading when a request is pipelined, and so would never see that the client left."""
        if len(self.pipeline) > MAX_PIPELINED:
            self._reject(BadRequest("Too many pipelined requests."))
        if len(self.cycle.body) <= HIGH_WATER_LIMIT:
            self.flow.resume_reading()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read on with a fresh parser that is told only how the body is framed.

        RFC 9110 section 7.8 lets a server ignore Upgrade; llhttp cannot be told to.
        """
        framing = [h for h in self.headers if h[0].lower() in (b"content-length", b"transfer-encoding")]
        self.parser = httptools.HttpRequestParser(self)
        self._body_only = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % header for header in framing))
        self._body_only = False
        if rest:
            self.data_received(rest)

    def _reject(self, error: GatewayError) -> None:
        """Stop the parser; what it was fed is refused."""
        self._rejection = error
        raise error

    def _refuse(self, error: GatewayError) -> None:
        """Answer what cannot be parsed. If it came after a request that is being answered, that answer is the last."""
        self._refused = True
        answer = self._answer
        if answer is not None and not answer.ended:
            if answer.request_complete:
                answer.end_connection()
                return
            answer.lost()  # it is this request's own body that cannot be parsed
        body = error.body()
        head = _REFUSAL % (error.status, _REASON[error.status], len(body))
        self.transport.write(head + body)
        self._linger()

    def _linger(self) -> None:
        """Close, but let the client read the answer first: a close with bytes unread would reset the connection."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


_REFUSAL = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
_REASON = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}
