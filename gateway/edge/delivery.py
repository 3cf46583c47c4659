"""Delivery: one request's way to a replica and back, from its last byte in to its answer's last byte out.

It goes through learning what is known of the prompt, a place among those under way, and attempts, one after another,
until one answer has gone to the client. Mostly nothing has to be waited for but the replica: then all of it happens in
the callbacks of two sockets, and no task is made, which would cost more than the rest of the way. Whatever happens,
its books are closed once, synchronously, in :meth:`Delivery._finish`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol

from gateway.edge.admission import Admission, Ticket
from gateway.edge.aliases import ModelAliases, is_json
from gateway.edge.answer import Answer
from gateway.edge.client_request import ClientRequest
from gateway.edge.headers import RequestIds, request_head
from gateway.edge.relay import HeldAnswer, Relay, Rewrite, Verdict, pass_held
from gateway.edge.retries import Retries, RetryBudget
from gateway.edge.routing import Attempt, PreparedT, Routing
from gateway.edge.upstream_connection import UpstreamConnection, UpstreamError
from gateway.edge.upstream_pool import UpstreamPool
from gateway.edge.usage_for_us import HiddenUsage, InTurn
from gateway.errors import GatewayError, GatewayFault, NoReplica, ReplicaTimeout, ReplicaUnreachable, Stopping
from gateway.fleet.outcome import Again, Outcome, outcome_of
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.exchange import Exchange

_LARGE_BYTES = 16_384  # of a body that is not kept longer than it is needed
_NO_BODY = frozenset({"GET", "HEAD", "DELETE"})

logger = logging.getLogger(__name__)

# Outcomes of an exchange that are no attempt's
REFUSED = "refused"  # no attempt was made
SHUTDOWN = "shutdown"  # the gateway stopped first
FAULT = "fault"  # the gateway's own


class Refusal(Protocol):
    """Answers with an error of ours. ``detailed``: its client may know of the replicas."""

    def __call__(self, answer: Answer, exchange: Exchange, error: GatewayError, *, detailed: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Desk(Generic[PreparedT]):
    """What all deliveries of a process use.

    ``closed`` is told of every delivery at its end.
    """

    router: Routing[PreparedT]
    upstream: UpstreamPool
    admission: Admission
    budget: RetryBudget
    ids: RequestIds
    clock: Callable[[], float]
    aliases: ModelAliases
    hold_head: bool
    refuse: Refusal
    closed: Callable[[Delivery[PreparedT]], None]


class Delivery(Generic[PreparedT]):
    """See the module. :meth:`start` it once."""

    __slots__ = (
        "_asked",
        "_body",
        "_desk",
        "_finished",
        "_held",
        "_hides_usage",
        "_is_preparing",
        "_lines",
        "_prepared",
        "_priority",
        "_relay",
        "_request",
        "_strategy",
        "_task",
        "_ticket",
        "_tried",
        "answer",
        "exchange",
        "retries",
        "show_receipt",
    )

    _prepared: PreparedT

    def __init__(
        self,
        desk: Desk[PreparedT],
        asked: ClientRequest,
        request: InferenceRequest,
        exchange: Exchange,
        *,
        lines: bytes,
        body: bytes,
        strategy: str | None = None,
        priority: int = 0,
        show_receipt: bool = True,
        hides_usage: bool = False,
    ) -> None:
        """``asked``: by the client; ``request``: what is known of it; ``lines`` and ``body``: what replicas get of its
        headers and its body. ``hides_usage``: ``body`` asks for it, and the client did not.
        """
        self._desk = desk
        self._asked = asked
        self._request = request
        self._lines = lines
        self._body = body
        self._strategy = strategy
        self._priority = priority
        self._tried: frozenset[str] = frozenset()
        self._held: tuple[Attempt, HeldAnswer] | None = None
        self._relay: Relay | None = None
        self._task: asyncio.Task[None] | None = None
        self._ticket: Ticket | None = None
        self._finished = False
        self._hides_usage = hides_usage
        self._is_preparing = False
        self.answer = asked.answer
        self.exchange = exchange
        self.retries = Retries(desk.budget)
        self.show_receipt = show_receipt

    # Recipient

    @property
    def hold_head(self) -> bool:
        return self._desk.hold_head

    @property
    def clock(self) -> Callable[[], float]:
        return self._desk.clock

    def rewrite(self, content_type: bytes) -> Rewrite | None:
        alias = self._prepared.alias
        named = self._desk.aliases.in_answer(alias) if alias and is_json(content_type) else None
        if not self._hides_usage or not content_type.startswith(b"text/event-stream"):
            return named
        return HiddenUsage() if named is None else InTurn(HiddenUsage(), named)

    def first_byte_came(self) -> None:
        if len(self._body) > _LARGE_BYTES:  # while its answer streams, nobody needs it
            self._body = self._asked.body = b""
            self._request.forget_body()

    @property
    def has_place(self) -> bool:
        """Whether it is among those under way, and not in the queue."""
        return self._relay is not None

    # The way

    def start(self) -> None:
        """Set out. Everything that follows is called back."""
        self.answer.on_gone = self._client_left
        self._step(self._prepare)

    def stop(self) -> None:
        """The gateway ends before the answer does."""
        self._break_off(SHUTDOWN, Stopping())

    def _prepare(self) -> None:
        router = self._desk.router
        prepared = router.prepare_now(self._request, strategy=self._strategy)
        if prepared is not None:
            self._queue_up(prepared)
            return
        self._is_preparing = True
        self._desk.admission.preparing += 1
        self._wait_for(partial(router.prepare, self._request, strategy=self._strategy), self._queue_up)

    def _queue_up(self, prepared: PreparedT) -> None:
        self._end_preparing()
        self._prepared = prepared
        self.exchange.prepared_s = self._desk.clock()
        admission = self._desk.admission
        ticket = admission.enter(prepared.work_tokens, self._priority, self._admitted, self._refuse)
        if ticket.waits:
            self._ticket = ticket

    def _end_preparing(self) -> None:
        if self._is_preparing:
            self._is_preparing = False
            self._desk.admission.preparing -= 1

    def _admitted(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self.exchange.queued_s = ticket.queued_s
        self._step(self._set_out)

    def _set_out(self) -> None:
        self._send(self._attempt())

    def _attempt(self) -> Attempt:
        attempt = self._desk.router.attempt(self._prepared, self._tried)
        exchange = self.exchange
        exchange.attempts += 1
        exchange.decision = attempt.decision
        exchange.decided_s = exchange.decided_s or self._desk.clock()
        return attempt

    def _send(self, attempt: Attempt) -> None:
        self._relay = Relay(self, attempt)
        kept = self._desk.upstream.take_idle(attempt.origin) if self._asked.method != "HEAD" else None
        if kept is not None:
            self._carry(kept)
        else:
            self._wait_for(partial(self._connect, attempt), self._connected)

    async def _connect(self, attempt: Attempt) -> UpstreamConnection | UpstreamError:
        try:
            return await self._desk.upstream.connect(attempt.origin)
        except UpstreamError as error:
            return error

    def _connected(self, connection: UpstreamConnection | UpstreamError) -> None:
        if isinstance(connection, UpstreamConnection):
            self._carry(connection)
        elif self._relay is not None:
            self._relay.unreachable(connection)

    def _carry(self, connection: UpstreamConnection) -> None:
        relay = self._relay
        if relay is None:
            return
        attempt = relay.attempt
        method, body = self._asked.method, self._body
        head = request_head(
            method,
            self._asked.target,
            self._lines,
            origin=attempt.origin,
            request_id=self._desk.ids.of_attempt(self.exchange.request_id),
            rank=attempt.pinned_rank,
            body_bytes=len(body) if body or method not in _NO_BODY else None,
        )
        relay.carry(connection, head, body, method)

    # How an attempt ended

    def attempt_ended(self, verdict: Verdict) -> None:
        """Called by the relay, once an attempt; also where the connection it was sent on had been closed before."""
        self._step(self._go_on, verdict)

    def _go_on(self, verdict: Verdict) -> None:
        """A kept connection that breaks before it gave a byte was most likely closed before our request came (RFC 9112
        section 9.3.1): the same attempt goes on with a new connection. Should the server be gone, connecting fails.
        """
        relay = self._relay
        if relay is None:
            return
        if verdict.outcome.again is Again.RESENT:
            self._desk.upstream.stale += 1
            self._wait_for(partial(self._connect, relay.attempt), self._connected)
            return
        self.exchange.outcome = verdict.outcome.value
        if verdict.passed:
            self._finish()
            return
        if verdict.held is not None:
            self._held = relay.attempt, verdict.held
        another = self._another(relay.attempt, verdict.outcome)
        if another is not None:
            self._send(another)
        elif self._held is not None:
            self._pass_held(*self._held)
        else:
            raise _nothing_came(verdict)

    def _another(self, failed: Attempt, outcome: Outcome) -> Attempt | None:
        """The next attempt after one that ended so, if that is worth one and a replica is left to try."""
        if not self.retries.allows(outcome):
            return None
        self._tried |= {failed.server_id}
        try:
            attempt = self._attempt()
        except NoReplica:
            return None
        self.retries.spend(outcome)
        return attempt

    def _pass_held(self, attempt: Attempt, held: HeldAnswer) -> None:
        """Every replica that could be asked answered so, or worse: it is the answer."""
        self.exchange.decision = attempt.decision
        self.exchange.outcome = outcome_of(held.head.status).value
        pass_held(self, attempt, held)
        self._finish()

    # The end

    def _client_left(self) -> None:
        self._break_off(Outcome.CLIENT_GONE.value, None)

    def _break_off(self, outcome: str, error: GatewayError | None) -> None:
        if self._finished:
            return
        self.exchange.outcome = outcome
        if self._task is not None:
            self._task.cancel()
        if self._relay is not None:
            self._relay.abandon()
        if error is not None:
            self._desk.refuse(self.answer, self.exchange, error, detailed=self.show_receipt)
        self._finish()

    def _refuse(self, error: GatewayError) -> None:
        if not self._finished:
            self._desk.refuse(self.answer, self.exchange, error, detailed=self.show_receipt)
            self._finish()

    def _finish(self) -> None:
        """Close the books."""
        self._finished = True
        self._end_preparing()
        self.answer.on_gone = self._task = self._relay = None
        if self._ticket is not None:
            self._ticket.release()
        self._desk.closed(self)

    # How it moves

    def _step(self, step: Callable[..., None], *given: Any) -> None:
        """Take a step from a callback, where nobody else would notice that it failed."""
        if self._finished:
            return
        try:
            step(*given)
        except GatewayError as error:
            self._refuse(error)
        except Exception as error:
            self._fail(error)

    def _wait_for(self, begin: Callable[[], Coroutine[Any, Any, Any]], then: Callable[[Any], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._waiting(begin, then))

    async def _waiting(self, begin: Callable[[], Coroutine[Any, Any, Any]], then: Callable[[Any], None]) -> None:
        """Cancelled only by who has closed the books, or does; perhaps before it has begun."""
        try:
            result = await begin()
        except GatewayError as error:
            self._refuse(error)
        except Exception as error:
            self._fail(error)
        else:
            self._task = None
            self._step(then, result)

    def _fail(self, error: Exception) -> None:
        logger.error("a request failed in the gateway itself", exc_info=error)
        self._break_off(FAULT, GatewayFault())


def _nothing_came(verdict: Verdict) -> GatewayError:
    logger.debug("no attempt left: %s", verdict.error)
    if verdict.outcome is Outcome.FIRST_BYTE_TIMEOUT:
        return ReplicaTimeout("The replica did not answer in time.", code="replica_timeout")
    return ReplicaUnreachable("No replica could be reached, or each broke off.", code="replica_unreachable")
