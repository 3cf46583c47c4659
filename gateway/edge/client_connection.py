"""ClientConnection: one client's connection. It hands requests to the handler one at a time, in order.

While a request is answered it reads on, so that a client that leaves is noticed; what was pipelined waits its turn.
A client that ends its side of the connection counts as gone. No timer is set here:
:class:`gateway.edge.client_connections.ClientConnections` ticks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING, cast

from gateway.edge.answer import Answer
from gateway.edge.client_request import ClientRequest, body_too_large
from gateway.edge.request_reader import RequestReader
from gateway.edge.send_watch import SendWatch
from gateway.edge.upload_budget import UploadShare
from gateway.errors import GatewayError, GatewayFault, RequestTimeout, Stopping, UploadsFull

if TYPE_CHECKING:
    from gateway.edge.client_connections import ClientConnections

_log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientConnection(asyncio.Protocol):
    """See the module. ``transport``, ``outbox`` and ``writing_paused`` are there for the answers."""

    __slots__ = (
        "_clients",
        "_closing",
        "_deaf",
        "_handler",
        "_quiet_ticks",
        "_reader",
        "_send_watch",
        "_serving",
        "_share",
        "_upload_bytes",
        "_uploading",
        "outbox",
        "transport",
        "writing_paused",
    )

    transport: asyncio.Transport

    def __init__(self, clients: ClientConnections) -> None:
        self._clients = clients
        self._handler = clients.handler
        self.outbox = clients.outbox
        self._reader = RequestReader(self, max_body_bytes=clients.handler.max_body_bytes)
        self._send_watch = SendWatch()
        self._share = UploadShare(clients.uploads)
        self._serving: ClientRequest | None = None  # whose turn it is
        self._uploading = False  # its body is still to come
        self._upload_bytes = 0  # of it, since it last came fast enough
        self._deaf = False  # what comes is thrown away
        self._closing = False  # nothing more is answered
        self._quiet_ticks = 0
        self.writing_paused = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._clients.add(self)
        if self._clients.draining:
            self.close_if_idle()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        reader = self._reader
        if self._uploading:
            self._upload_bytes += len(data)
        elif not reader.in_head:  # a head has its time as a whole
            self._quiet_ticks = 0
        reader.feed(data)
        if reader.fault is not None:
            self._deaf = True
        if self._serving is None and not self.writing_paused:
            self._take_turn()
        elif self._uploading and self._serving is not None:
            self._go_on_uploading(self._serving)
        else:
            self._count_uploads()

    def eof_received(self) -> None:
        self._client_left()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.discard(self)
        self._client_left()
        self._reader.close()
        del self._reader  # it holds this

    def pause_writing(self) -> None:
        self.writing_paused = True
        if self._serving is not None:
            self._serving.answer.writing_paused()

    def resume_writing(self) -> None:
        self.writing_paused = False
        if self._serving is not None:
            self._serving.answer.writing_resumed()
        else:
            self._take_next_turn()

    # One request after the other

    def _take_turn(self) -> None:
        reader = self._reader
        if reader.waiting:
            self._begin(reader.waiting.popleft())
        elif reader.fault is not None:
            self._refuse_unread(reader.fault)

    def _take_next_turn(self) -> None:
        """Of what came while another was served; unless it has been taken meanwhile, or the connection has ended."""
        if self._serving is None and not self._closing:
            self.outbox.flush()  # that is when it turns out that the client does not read
            if not self.writing_paused:
                self._take_turn()
                self._count_uploads()

    def _begin(self, request: ClientRequest) -> None:
        self._serving = request
        if self._clients.parting:
            request.answer.end_connection()
        try:
            self._handler.begin(request)
        except GatewayError as error:
            self._refuse(request, error)
        except Exception:
            self._fail(request)
        else:
            if request.complete:
                self._serve(request)
            else:
                self._begin_upload(request)

    def _begin_upload(self, request: ClientRequest) -> None:
        limit = request.max_body_bytes or self._handler.max_body_bytes
        if max(request.declared_bytes or 0, self._reader.body_bytes) > limit:
            self._refuse(request, body_too_large(limit))
            return
        try:
            self._clients.uploads.check((request.declared_bytes or 0) - self._share.held_bytes)
        except UploadsFull as error:
            self._refuse(request, error)
            return
        self._uploading = True
        self._quiet_ticks = self._upload_bytes = 0
        if request.expects_continue:
            self.outbox.write(self.transport, _CONTINUE)
        self._go_on_uploading(request)

    def _go_on_uploading(self, request: ClientRequest) -> None:
        self._count_uploads()
        if request.complete:
            self._uploading = False
            self._serve(request)
        elif self._reader.fault is not None:
            self._refuse(request, self._reader.fault)

    def _count_uploads(self) -> None:
        """What is held of requests whose turn has not come, or that are not whole. If it is too much, no more is."""
        try:
            self._share.set(self._reader.held_bytes)
        except UploadsFull as error:
            if self._reader.fault is None:
                self._reader.fault = error.with_traceback(None)
            self._deaf = True

    def _serve(self, request: ClientRequest) -> None:
        try:
            self._handler.serve(request)
        except Exception:
            self._fail(request)

    def _refuse(self, request: ClientRequest, error: GatewayError) -> None:
        """Of a request that is not all in, the rest is not read: then its answer is the last."""
        self._uploading = False
        if not request.complete:
            self._deaf = True
            request.answer.end_connection()
        try:
            self._handler.refuse(request, error)
        except Exception:
            self._fail(request)

    def _fail(self, request: ClientRequest) -> None:
        """A fault of the handler: it costs this client its connection, and nobody else anything."""
        _log.exception("a request failed in the gateway itself")
        answer = request.answer
        answer.end_connection()
        if answer.started:
            answer.truncate()
        else:
            error = GatewayFault()
            answer.respond(error.status, error.body())

    def _refuse_unread(self, error: GatewayError) -> None:
        """Answer bytes that did not become a request."""
        try:
            self._handler.unreadable(error)
        except Exception:
            _log.exception("a refusal could not be counted")
        Answer(self, keep_alive=False).respond(error.status, error.body(), error.headers())

    # For the answers

    def answered(self, *, close: bool) -> None:
        request = self._serving
        self._serving = None
        self._quiet_ticks = 0
        if request is None or not request.complete:
            self._close(linger=True)
        elif close:
            self._close(linger=self._deaf or not (request.answer.old or self._reader.is_last))
        elif not self._reader.between_requests:
            # Not at once: who writes the answer has still to close its books, and give its place back.
            asyncio.get_running_loop().call_soon(self._take_next_turn)
        elif self._clients.draining:
            self.close_if_idle()

    def cut(self, *, reset: bool) -> None:
        self._serving = None
        self._end()
        if reset:
            # Only this option makes a close a reset.
            raw: socket.socket = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self._close_once()

    # For ClientConnections

    def part(self) -> None:
        """Say in the answers to what is there, where that is not too late, that they are the last."""
        for request in (self._serving, *self._reader.waiting):
            if request is not None and not request.answer.started:
                request.answer.end_connection()

    def close_if_idle(self) -> None:
        """Close, unless a request is being answered or on its way."""
        if self._serving is None and not self._closing and self._reader.between_requests:
            self._end()
            self._close_once()

    def stop_upload(self) -> None:
        """Of a request that is not all in, no more is waited for: the gateway stops."""
        if self._uploading and self._serving is not None:
            self._refuse(self._serving, Stopping())

    def abort(self) -> None:
        """End it at once, when what was written has left."""
        self.outbox.flush()
        self.transport.abort()

    def tick(self) -> None:
        """``ClientConnections.tick_s`` have passed. End what takes too long by the client's fault."""
        unsent = self.transport.get_write_buffer_size()
        self._send_watch.tick(unsent, 0 if self._serving is None else self._serving.answer.body_bytes)
        if self._send_watch.quiet_ticks > self._clients.send_ticks:
            self.transport.abort()  # a close would wait for what it does not take
            return
        limit = self._patience_ticks(unsent)
        if limit is None:
            return
        self._quiet_ticks += 1
        if self._uploading and self._upload_bytes >= self._quiet_ticks * self._clients.upload_bytes_per_tick:
            self._quiet_ticks = self._upload_bytes = 0
        elif self._quiet_ticks > limit:
            self._time_is_up()

    def _patience_ticks(self, unsent: int) -> int | None:
        """How long the client may send nothing now; ``None``: that is not what we wait for."""
        limits = self._clients
        if self._serving is not None:
            return limits.upload_ticks if self._uploading else None
        if unsent:
            return None  # it still reads an answer
        if self._closing:
            return limits.linger_ticks
        return limits.upload_ticks if self._reader.in_head else limits.idle_ticks

    def _time_is_up(self) -> None:
        if self._serving is not None:
            self._refuse(self._serving, RequestTimeout())
        elif self._reader.in_head and not self._closing:
            self._deaf = True
            self._refuse_unread(RequestTimeout())
        else:
            self._end()
            self._close_once()

    # The end

    def _client_left(self) -> None:
        serving = self._serving
        self._serving = None
        try:
            self._end()
        finally:
            if serving is not None:
                self._lose(serving)

    def _lose(self, request: ClientRequest) -> None:
        try:
            request.answer.lost()
        except Exception:
            _log.exception("a request failed at its end")

    def _close(self, *, linger: bool) -> None:
        """Close after an answer.

        A close while the client still sends would reset the connection, and the reset overtake the answer. Lingering,
        it is only told that no more comes, and what it sends is thrown away for a while (RFC 9112 section 9.6).
        """
        self._end()
        if not linger:
            self._close_once()
        elif not self.transport.is_closing() and self.transport.get_extra_info("sslcontext") is None:
            self.transport.write_eof()

    def _close_once(self) -> None:
        """A second time, asyncio's TLS transport would forget what it has to close, and to say how much it holds."""
        if not self.transport.is_closing():
            self.transport.close()

    def _end(self) -> None:
        """No more is read, and nothing more answered; what was leaves before the connection is closed."""
        self._deaf = self._closing = True
        self._uploading = False
        self._reader.drop()
        self._share.set(0)
        self.outbox.flush()
