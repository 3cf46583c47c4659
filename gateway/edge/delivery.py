"""Delivery: the attempts at one request, one after another, until one answer has gone to the client.

It decides whether to go on (with :mod:`gateway.edge.retries`) and what the client gets when nothing worked:
the last answer that any replica gave, untouched, or an error of the gateway's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, NamedTuple

from gateway.edge.answer import Answer
from gateway.edge.headers import request_head
from gateway.edge.relay import HeldAnswer, Relay, Verdict, start_answer
from gateway.edge.retries import RetryBudget, outcome_of
from gateway.edge.routing import Attempt, PreparedT, Routing
from gateway.edge.upstream_connection import UpstreamError
from gateway.edge.upstream_pool import UpstreamPool
from gateway.errors import GatewayError, NoReplica, ReplicaTimeout, ReplicaUnreachable
from gateway.fleet.outcome import Outcome
from gateway.router.exchange import Exchange

_NO_BODY = frozenset({"GET", "HEAD", "DELETE"})

logger = logging.getLogger(__name__)


class Outgoing(NamedTuple):
    """What every attempt sends. ``target``: path and query; ``lines``: the header lines that pass."""

    method: str
    target: bytes
    lines: bytes
    body: bytes


class Delivery(Generic[PreparedT]):
    """One request's way to a replica. Used once."""

    def __init__(
        self,
        router: Routing[PreparedT],
        upstream: UpstreamPool,
        outgoing: Outgoing,
        answer: Answer,
        exchange: Exchange,
        *,
        hold_head: bool,
        show_receipt: bool,
        clock: Callable[[], float],
    ) -> None:
        self._router = router
        self._upstream = upstream
        self._outgoing = outgoing
        self._answer = answer
        self._exchange = exchange
        self._hold_head = hold_head
        self._show_receipt = show_receipt
        self._clock = clock
        self._budget = RetryBudget()
        self._tried: set[str] = set()
        self._held: tuple[HeldAnswer, Attempt] | None = None

    async def run(self, prepared: PreparedT) -> None:
        """Raises ``NoReplica``, ``ReplicaUnreachable`` or ``ReplicaTimeout`` if there is nothing to answer with."""
        attempt: Attempt | None = self._attempt(prepared)
        while attempt is not None:
            verdict = await self._try(attempt)
            self._exchange.outcome = verdict.outcome.value
            if verdict.passed:
                return
            if verdict.held is not None:
                self._held = verdict.held, attempt
            attempt = self._another(prepared, verdict.outcome)
        if self._held is None:
            raise _nothing_came(verdict)
        self._pass_held(*self._held)

    def _attempt(self, prepared: PreparedT) -> Attempt:
        attempt = self._router.attempt(prepared, frozenset(self._tried))
        self._tried.add(attempt.server_id)
        exchange = self._exchange
        exchange.attempts += 1
        exchange.decision = attempt.decision
        exchange.decided_s = exchange.decided_s or self._clock()
        return attempt

    def _another(self, prepared: PreparedT, outcome: Outcome) -> Attempt | None:
        """The next attempt after one that ended so, if that is worth one and a replica is left to try."""
        if not self._budget.allows(outcome):
            return None
        self._budget.spend(outcome)
        try:
            return self._attempt(prepared)
        except NoReplica:
            return None

    async def _try(self, attempt: Attempt) -> Verdict:
        relay = Relay(
            self._answer,
            attempt,
            self._exchange,
            self._budget,
            hold_head=self._hold_head,
            show_receipt=self._show_receipt,
            clock=self._clock,
        )
        try:
            return await self._send(attempt, relay)
        except UpstreamError as error:
            return relay.unreachable(error)
        finally:
            attempt.end(Outcome.CLIENT_GONE)  # does nothing unless this task was cancelled

    async def _send(self, attempt: Attempt, relay: Relay) -> Verdict:
        """On a kept connection, or a new one.

        A kept connection that breaks before it gave a byte was most likely closed before our request came
        (RFC 9112 section 9.3.1): the same attempt goes on with a new connection, and counts once. Should
        the server be gone, connecting fails.
        """
        method, target, lines, body = self._outgoing
        head = request_head(
            method,
            target,
            lines,
            origin=attempt.origin,
            rank=attempt.pinned_rank,
            body_bytes=len(body) if body or method not in _NO_BODY else None,
        )
        kept = self._upstream.take_idle(attempt.origin) if method != "HEAD" else None
        if kept is not None:
            verdict = await relay.carry(kept, head, body, method)
            if not verdict.stale:
                return verdict
        return await relay.carry(await self._upstream.connect(attempt.origin), head, body, method)

    def _pass_held(self, held: HeldAnswer, attempt: Attempt) -> None:
        """Every replica that could be asked answered so, or worse: it is the answer."""
        self._exchange.decision = attempt.decision
        self._exchange.outcome = outcome_of(held.head.status).value
        start_answer(self._answer, held.head, attempt, self._exchange, show_receipt=self._show_receipt)
        self._answer.send(held.body, last=True)


def _nothing_came(verdict: Verdict) -> GatewayError:
    logger.debug("no attempt left: %s", verdict.error)
    if verdict.outcome is Outcome.TIMEOUT:
        return ReplicaTimeout("The replica did not answer in time.", code="replica_timeout")
    return ReplicaUnreachable("No replica could be reached, or each broke off.", code="replica_unreachable")
