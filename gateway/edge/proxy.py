"""Proxy: makes a delivery of each request of a proxied route, and the record of it (the :class:`Exchange`).

It chooses nothing: the router does. Bodies and answers pass byte for byte, but for a model's alias and for
usage that only we ask for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from gateway.edge.admission import Admission, priority_of
from gateway.edge.aliases import ModelAliases
from gateway.edge.answer import Answer
from gateway.edge.client_request import ClientRequest
from gateway.edge.delivery import FAULT, REFUSED, Delivery, Desk
from gateway.edge.headers import Credentials, RequestIds, lines_to_replica
from gateway.edge.retries import RetryBudget
from gateway.edge.routes import response_id
from gateway.edge.routing import PreparedT, Routing
from gateway.edge.upstream_pool import UpstreamPool
from gateway.edge.usage_for_us import asking_for_usage
from gateway.errors import GatewayError, GatewayFault
from gateway.fleet.outcome import Outcome
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.exchange import Exchange

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    """What a deployment wants of its proxy.

    ``hold_head``: keep an answer's head until its first body byte, so that a replica that dies before it is
    replaced unseen; without, headers go as they come. ``client_strategy`` and ``client_priority``: obey a client's
    ``x-prefixway-strategy`` and ``x-prefixway-priority``. ``ask_usage``: streams carry usage, for us alone where their
    client did not ask.
    """

    credentials: Credentials = field(default_factory=Credentials)
    show_receipt: bool = True
    hold_head: bool = True
    session_headers: Sequence[str] = ()
    client_strategy: bool = False
    client_priority: bool = False
    ask_usage: bool = False
    aliases: Mapping[str, str] = field(default_factory=dict)


class Proxy(Generic[PreparedT]):
    """See the module. ``observer`` gets every exchange once, at its end."""

    def __init__(
        self,
        router: Routing[PreparedT],
        upstream: UpstreamPool,
        observer: Callable[[Exchange], None],
        *,
        admission: Admission,
        budget: RetryBudget,
        rules: ProxyRules,
        clock: Callable[[], float],
    ) -> None:
        self._observer = observer
        self._rules = rules
        self._clock = clock
        self._aliases = ModelAliases(rules.aliases)
        self._session_headers = [name.lower().encode() for name in rules.session_headers]
        self._under_way: set[Delivery[PreparedT]] = set()
        self._desk = Desk(
            router=router,
            upstream=upstream,
            admission=admission,
            budget=budget,
            ids=RequestIds(),
            clock=clock,
            aliases=self._aliases,
            hold_head=rules.hold_head,
            refuse=_refuse,
            closed=self._closed,
        )

    @property
    def under_way(self) -> int:
        """Requests that are not answered yet."""
        return len(self._under_way)

    def serve(self, kind: str, request: ClientRequest) -> None:
        """Answer one whole request of a proxied route, now or later, whatever happens."""
        exchange = self._exchange(kind, request)
        try:
            delivery = self._delivery(request, exchange)
        except GatewayError as error:
            self._refuse(request, exchange, error)
        except Exception as error:
            logger.error("a request failed in the gateway itself", exc_info=error)
            exchange.outcome = FAULT
            self._refuse(request, exchange, GatewayFault())
        else:
            self._under_way.add(delivery)
            delivery.start()

    def refuse(self, kind: str, request: ClientRequest, error: GatewayError) -> None:
        """Answer a request that does not get as far as a replica."""
        self._refuse(request, self._exchange(kind, request), error)

    def client_left_early(self, kind: str, request: ClientRequest) -> None:
        """The client of a request that was accepted left before all of it had come."""
        exchange = self._exchange(kind, request)
        exchange.outcome = Outcome.CLIENT_GONE.value
        self._close(exchange, request.answer)

    def stop(self) -> None:
        """Break off everything that is under way."""
        # Those that wait first: else they would get the places of the others.
        for delivery in sorted(self._under_way, key=lambda delivery: delivery.has_place):
            delivery.stop()

    def request_id(self, request: ClientRequest) -> str:
        return self._desk.ids.of(request.header(b"x-request-id"))

    def _exchange(self, kind: str, request: ClientRequest) -> Exchange:
        exchange = Exchange(kind, request.id, self._clock())
        if kind == "control":
            exchange.control = request.path
        if request.client is not None:
            exchange.client = request.client.name
        return exchange

    def _shows_receipt(self, request: ClientRequest) -> bool:
        return self._rules.show_receipt if request.client is None else request.client.receipt

    def _refuse(self, request: ClientRequest, exchange: Exchange, error: GatewayError) -> None:
        _refuse(request.answer, exchange, error, detailed=self._shows_receipt(request))
        self._close(exchange, request.answer)

    def _delivery(self, request: ClientRequest, exchange: Exchange) -> Delivery[PreparedT]:
        rules = self._rules
        self._desk.admission.refuse_if_full()
        inference, body = self._inference(request, exchange.route)
        exchange.model, exchange.stream = inference.model, inference.stream
        asking = asking_for_usage(inference, body) if rules.ask_usage else None
        return Delivery(
            self._desk,
            request,
            inference,
            exchange,
            lines=lines_to_replica(request.headers, request.fields, credentials=rules.credentials),
            body=body if asking is None else asking,
            strategy=_text(request, b"x-prefixway-strategy") or None if rules.client_strategy else None,
            priority=priority_of(request.header(b"x-prefixway-priority")) if rules.client_priority else 0,
            show_receipt=self._shows_receipt(request),
            hides_usage=asking is not None,
        )

    def _inference(self, request: ClientRequest, kind: str) -> tuple[InferenceRequest, bytes]:
        """What is asked, and the body that asks for it at a replica."""
        content_type = request.header(b"content-type")
        inference = InferenceRequest.parse(
            kind,
            request.body,
            session=self._session(request),
            content_type=content_type,
            response_id=response_id(request.path),
        )
        return self._aliases.resolve(inference, request.body) if self._aliases else (inference, request.body)

    def _session(self, request: ClientRequest) -> str:
        """The value of the first of the configured headers that was sent."""
        for name in self._session_headers:
            if value := _text(request, name):
                return value
        return ""

    def _closed(self, delivery: Delivery[PreparedT]) -> None:
        self._under_way.discard(delivery)
        self._close(delivery.exchange, delivery.answer)

    def _close(self, exchange: Exchange, answer: Answer) -> None:
        exchange.ended_s = self._clock()
        exchange.outcome = exchange.outcome or REFUSED
        exchange.status = answer.status
        exchange.bytes_out = answer.body_bytes
        self._observer(exchange)


def _text(request: ClientRequest, name: bytes) -> str:
    """A header's first value."""
    return request.header(name).decode("latin-1")


def _refuse(answer: Answer, exchange: Exchange, error: GatewayError, *, detailed: bool) -> None:
    """Answer with an error of ours; where an answer has begun already, break it off. ``detailed``: to who may know."""
    exchange.error = type(error).__name__
    exchange.error_code = error.code or error.kind
    if answer.started:
        answer.truncate()
        return
    answer.respond(
        error.status, error.body(detailed=detailed), [(b"x-request-id", exchange.request_id.encode()), *error.headers()]
    )
