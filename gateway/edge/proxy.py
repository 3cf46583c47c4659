"""Proxy: one request through, from its body's last byte in to its answer's last byte out.

It owns the order of the steps and the record of them (the :class:`Exchange`). It chooses nothing: the
router does. Bodies and answers pass byte for byte.

A client that leaves cancels the task that serves it, at whatever point; all that must be released then is
released synchronously, so a second cancellation finds nothing to interrupt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic

from gateway.edge.answer import Answer
from gateway.edge.client_request import ClientLeftError, ClientRequest
from gateway.edge.delivery import Delivery, Outgoing
from gateway.edge.headers import Credentials, header, lines_to_replica
from gateway.edge.routing import PreparedT, Routing
from gateway.edge.upstream_pool import UpstreamPool
from gateway.errors import GatewayError, MethodNotAllowed, Stopping
from gateway.fleet.outcome import Outcome
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.exchange import Exchange

logger = logging.getLogger(__name__)

# Outcomes of an exchange that are no attempt's
REFUSED = "refused"  # no attempt was made
SHUTDOWN = "shutdown"  # the gateway stopped first
FAULT = "fault"  # the gateway's own
MAX_BODY_BYTES = 64 * 1024 * 1024


class Proxy(Generic[PreparedT]):
    """See the module. ``observer`` gets every exchange once, at its end.

    ``hold_head``: keep an answer's head until its first body byte, so that a replica that dies before it is
    replaced unseen; without, headers go as they come. ``strategy_header``: obey a client's
    ``x-prefixway-strategy``.
    """

    def __init__(
        self,
        router: Routing[PreparedT],
        upstream: UpstreamPool,
        observer: Callable[[Exchange], None],
        *,
        clock: Callable[[], float],
        credentials: Credentials,
        show_receipt: bool = True,
        hold_head: bool = True,
        max_body_bytes: int = MAX_BODY_BYTES,
        session_headers: Sequence[str] = (),
        strategy_header: bool = False,
    ) -> None:
        self._router = router
        self._upstream = upstream
        self._observer = observer
        self._clock = clock
        self._credentials = credentials
        self._show_receipt = show_receipt
        self._hold_head = hold_head
        self._max_body_bytes = max_body_bytes
        self._session_headers = [name.lower().encode() for name in session_headers]
        self._strategy_header = strategy_header

    async def serve(self, route: str, request: ClientRequest) -> None:
        """Answer one request of a proxied route, whatever happens."""
        exchange = Exchange(route, request.id, self._clock())
        try:
            await self._serve(request, exchange)
        except GatewayError as error:
            _refuse(request.answer, exchange, error)
        except ClientLeftError:
            exchange.outcome = Outcome.CLIENT_GONE.value
        except asyncio.CancelledError:
            if request.answer.gone:
                exchange.outcome = Outcome.CLIENT_GONE.value
                raise
            exchange.outcome = SHUTDOWN
            _refuse(request.answer, exchange, Stopping())
        except Exception:
            logger.exception("a request failed in the gateway itself")
            exchange.outcome = FAULT
            _refuse(request.answer, exchange, GatewayError("The gateway failed.", code="gateway_fault"))
        finally:
            self._close(exchange, request.answer)

    def refuse(self, route: str, request: ClientRequest, error: GatewayError) -> None:
        """Answer a request that does not get as far as a replica."""
        exchange = Exchange(route, request.id, self._clock())
        _refuse(request.answer, exchange, error)
        self._close(exchange, request.answer)

    async def _serve(self, request: ClientRequest, exchange: Exchange) -> None:
        body = await request.body(max_bytes=self._max_body_bytes)
        exchange.received_s = self._clock()
        inference = InferenceRequest.parse(exchange.route, body, session=self._session(request))
        exchange.model, exchange.stream = inference.model, inference.stream
        prepared = await self._router.prepare(inference, strategy=self._strategy(request))
        exchange.prepared_s = self._clock()
        delivery = Delivery(
            self._router,
            self._upstream,
            self._outgoing(request, body),
            request.answer,
            exchange,
            hold_head=self._hold_head,
            show_receipt=self._show_receipt,
            clock=self._clock,
        )
        await delivery.run(prepared)

    def _outgoing(self, request: ClientRequest, body: bytes) -> Outgoing:
        lines = lines_to_replica(request.headers, credentials=self._credentials, request_id=request.id)
        return Outgoing(request.method, request.target, lines, body)

    def _session(self, request: ClientRequest) -> str:
        """The value of the first of the configured headers that was sent."""
        values = (header(request.headers, name) for name in self._session_headers)
        return next((value.decode("latin-1") for value in values if value), "")

    def _strategy(self, request: ClientRequest) -> str | None:
        if not self._strategy_header:
            return None
        return header(request.headers, b"x-prefixway-strategy").decode("latin-1") or None

    def _close(self, exchange: Exchange, answer: Answer) -> None:
        exchange.ended_s = self._clock()
        exchange.outcome = exchange.outcome or REFUSED
        exchange.status = answer.status
        exchange.bytes_out = answer.body_bytes
        self._observer(exchange)


def _refuse(answer: Answer, exchange: Exchange, error: GatewayError) -> None:
    """Answer with an error of ours; where an answer has begun already, break it off."""
    exchange.error = type(error).__name__
    if answer.started:
        answer.truncate()
        return
    headers = [(b"x-request-id", exchange.request_id.encode())]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allow.encode()))
    answer.respond(error.status, error.body(), headers)
