"""Relay: the answer to one attempt, on its way to the client.

It holds the answer's head until the first body byte, because until then another replica may still be asked,
and it sees to it that the attempt is told its end exactly once. The upstream connection calls it,
synchronously, as bytes come. It does not know whether there will be another attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from gateway.edge.answer import Answer
from gateway.edge.headers import header, headers_to_client
from gateway.edge.retries import RetryBudget, outcome_of
from gateway.edge.routing import Attempt
from gateway.edge.stream_tap import StreamTap
from gateway.edge.upstream_connection import ResponseHead, UpstreamConnection, UpstreamError
from gateway.errors import GatewayError, ReplicaTimeout, ReplicaUnreachable, Stopping
from gateway.fleet.outcome import Outcome
from gateway.router.exchange import Exchange
from gateway.usage import Usage

MAX_HELD_BYTES = 65_536  # of an answer that is kept back while another replica is asked
_MAX_RETRY_AFTER_S = 3600.0
_NO_HEAD = ResponseHead(0, b"", [], has_length=False)


class HeldAnswer(NamedTuple):
    """A whole answer that nobody was shown yet."""

    head: ResponseHead
    body: bytes


class Verdict(NamedTuple):
    """How an attempt ended. ``passed``: the client has its answer, or as much as there will be of it.

    ``stale``: it has not ended: the kept connection was dead, and the request may be sent again on a new one.
    """

    outcome: Outcome
    passed: bool
    held: HeldAnswer | None = None
    error: UpstreamError | None = None
    stale: bool = False


class Relay:
    """One attempt's receiver. See the module."""

    def __init__(
        self,
        answer: Answer,
        attempt: Attempt,
        exchange: Exchange,
        budget: RetryBudget,
        *,
        hold_head: bool,
        show_receipt: bool,
        clock: Callable[[], float],
    ) -> None:
        self._answer = answer
        self._attempt = attempt
        self._exchange = exchange
        self._budget = budget
        self._hold_head = hold_head
        self._show_receipt = show_receipt
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[Verdict] = self._loop.create_future()
        self._head = _NO_HEAD
        self._outcome = Outcome.OK
        self._passing = False  # the body's first bytes have gone to the client
        self._holding = False
        self._held = b""
        self._tap: StreamTap | None = None
        self._events = False  # the client gets server-sent events that it can read

    async def carry(self, connection: UpstreamConnection, head: bytes, body: bytes, method: str) -> Verdict:
        """Send the request and relay what comes of it. Cancelling closes the connection."""
        if self._done.done():
            self._done = self._loop.create_future()
        self._answer.watch(connection.pause_reading, connection.resume_reading)
        connection.send(head, body, self, method=method)
        try:
            return await self._done
        except asyncio.CancelledError:
            connection.abort()
            if self._answer.started and not self._answer.gone:
                self._cut_short(Stopping())
            raise

    def unreachable(self, error: UpstreamError) -> Verdict:
        """There was no connection to send on."""
        self._attempt.end(error.outcome)
        return Verdict(error.outcome, passed=False, error=error)

    # Receiver

    def head(self, head: ResponseHead) -> None:
        self._head = head
        self._outcome = outcome_of(head.status)
        if self._budget.allows(self._outcome):
            self._holding = True
        elif not self._hold_head:
            self._start()
            self._answer.flush()

    def body(self, data: bytes, complete: bool) -> None:
        if self._passing:
            self._pass_on(data, complete)
        elif self._holding:
            self._keep_back(data, complete)
        else:
            self._first_bytes(data, complete)

    def broken(self, error: UpstreamError) -> None:
        if error.resendable:
            self._settle(Verdict(error.outcome, passed=False, error=error, stale=True))
            return
        if self._answer.started:
            silent = error.outcome is Outcome.TIMEOUT
            self._cut_short(
                ReplicaTimeout("The replica fell silent.") if silent else ReplicaUnreachable("The replica broke off.")
            )
        self._end(Verdict(error.outcome, passed=self._answer.started, error=error))

    # What becomes of the body's bytes

    def _keep_back(self, data: bytes, complete: bool) -> None:
        """Another replica may do better: let nobody see this answer yet."""
        self._held += data
        if complete:
            self._end(Verdict(self._outcome, passed=False, held=HeldAnswer(self._head, self._held)))
        elif len(self._held) > MAX_HELD_BYTES:
            self._first_bytes(self._held, complete=False)

    def _first_bytes(self, data: bytes, complete: bool) -> None:
        if not self._answer.started:
            self._start()
        if data:
            self._exchange.first_byte_s = self._clock()
            if self._outcome is Outcome.OK:
                self._attempt.first_byte()
        self._passing = True
        self._pass_on(data, complete)

    def _pass_on(self, data: bytes, complete: bool) -> None:
        self._answer.send(data, complete)
        if self._tap is not None:
            self._tap.feed(data)
        if complete:
            self._complete()

    # Both ends of the answer

    def _start(self) -> None:
        head = self._head
        start_answer(self._answer, head, self._attempt, self._exchange, show_receipt=self._show_receipt)
        encoding = header(head.headers, b"content-encoding").lower()
        if self._outcome is Outcome.OK and encoding in (b"", b"identity"):
            self._events = header(head.headers, b"content-type").lower().startswith(b"text/event-stream")
            self._tap = StreamTap(stream=self._events)

    def _complete(self) -> None:
        outcome, usage = self._outcome, None
        if self._tap is not None:
            usage = self._exchange.usage = self._tap.usage()
            if self._tap.failed():
                outcome = Outcome.SERVER_ERROR
        self._end(Verdict(outcome, passed=True), usage)

    def _cut_short(self, reason: GatewayError) -> None:
        """There will be no more: say so in the stream if it has a place for that, else break off."""
        if self._tap is None or not self._events or self._head.has_length:
            self._answer.truncate()
            return
        gap = b"\n\n" if self._tap.mid_event() else b""
        self._answer.send(b"%bdata: %b\n\n" % (gap, reason.body()), last=True)

    def _end(self, verdict: Verdict, usage: Usage | None = None) -> None:
        pushed_back = verdict.outcome in (Outcome.BUSY, Outcome.UNAVAILABLE)
        retry_after_s = _retry_after_s(self._head) if pushed_back else None
        self._attempt.end(verdict.outcome, retry_after_s=retry_after_s, usage=usage)
        self._settle(verdict)

    def _settle(self, verdict: Verdict) -> None:
        if not self._done.done():  # it is when the client left a moment ago
            self._done.set_result(verdict)


def start_answer(
    answer: Answer, head: ResponseHead, attempt: Attempt, exchange: Exchange, *, show_receipt: bool
) -> None:
    """Begin to answer with what a replica said."""
    receipt = attempt.decision.headers() if show_receipt else ()
    headers = headers_to_client(head.headers, receipt=receipt, request_id=exchange.request_id)
    answer.start(head.status, headers, has_length=head.has_length, reason=head.reason)


def _retry_after_s(head: ResponseHead) -> float | None:
    """Retry-After in seconds; its other form, a date, says nothing to a monotonic clock."""
    value = header(head.headers, b"retry-after")
    return min(float(value), _MAX_RETRY_AFTER_S) if value.isdigit() else None
