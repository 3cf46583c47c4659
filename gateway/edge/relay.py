"""Relay: the answer to one attempt, on its way to the client.

It holds the answer's head until the first body byte, because until then another replica may still be asked,
and it sees to it that the attempt is told its end exactly once. The upstream connection calls it,
synchronously, as bytes come. It does not know whether there will be another attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gateway.edge.answer import Answer
from gateway.edge.error_event import error_event
from gateway.edge.fields import fields_of
from gateway.edge.headers import headers_to_client
from gateway.edge.retries import Retries
from gateway.edge.routing import Attempt
from gateway.edge.stream_tap import StreamTap
from gateway.edge.upstream_connection import ResponseHead, UpstreamConnection, UpstreamError
from gateway.errors import GatewayError, ReplicaTimeout, ReplicaUnreachable, Stopping
from gateway.fleet.outcome import Again, Outcome, outcome_of
from gateway.router.exchange import Exchange
from gateway.router.response_homes import response_id_in
from gateway.usage import Usage

MAX_HELD_BYTES = 65_536  # of an answer that is kept back while another replica is asked
_MAX_RETRY_AFTER_S = 3600.0
_NO_HEAD = ResponseHead(0, b"", [], {})
_UNCHANGED = (b"", b"identity")
_EVENTS = b"text/event-stream"
_SILENCES = (Outcome.CHUNK_TIMEOUT, Outcome.FIRST_BYTE_TIMEOUT)


class HeldAnswer(NamedTuple):
    """A whole answer that nobody was shown yet."""

    head: ResponseHead
    body: bytes


class Verdict(NamedTuple):
    """How an attempt ended. ``passed``: the client has its answer, or as much as there will be of it.

    With the outcome ``STALE`` it has not: the kept connection was dead, and the request goes out on a new one.
    """

    outcome: Outcome
    passed: bool
    held: HeldAnswer | None = None
    error: UpstreamError | None = None


_PASSED = Verdict(Outcome.OK, passed=True)


class Rewrite(Protocol):
    """Changes one passing answer. Bytes that may be the beginning of what it changes wait for the next ones."""

    def feed(self, data: bytes, last: bool) -> bytes:
        """What can go on by now; all of it if these are the ``last`` bytes."""
        ...


class Recipient(Protocol):
    """For whom an answer is relayed."""

    answer: Answer
    exchange: Exchange
    retries: Retries

    @property
    def hold_head(self) -> bool: ...

    @property
    def show_receipt(self) -> bool: ...

    def rewrite(self, content_type: bytes) -> Rewrite | None:
        """Made anew: what has to be changed in an answer of this type, such as the model's name; ``None``: nothing."""
        ...

    @property
    def clock(self) -> Callable[[], float]: ...

    def first_byte_came(self) -> None:
        """Nothing is sent again from now on."""
        ...

    def attempt_ended(self, verdict: Verdict) -> None: ...


class Relay:
    """One attempt's receiver. See the module."""

    __slots__ = (
        "_answer",
        "_connection",
        "_ear",
        "_events",
        "_exchange",
        "_head",
        "_held",
        "_holding",
        "_outcome",
        "_over",
        "_passing",
        "_recipient",
        "_rewrite",
        "_tap",
        "attempt",
    )

    def __init__(self, recipient: Recipient, attempt: Attempt) -> None:
        self.attempt = attempt
        self._recipient = recipient
        self._answer = recipient.answer
        self._exchange = recipient.exchange
        self._connection: UpstreamConnection | None = None
        self._head = _NO_HEAD
        self._outcome = Outcome.OK
        self._passing = False  # the body's first bytes have gone to the client
        self._holding = False
        self._held = b""
        self._tap: StreamTap | None = None
        self._ear: Callable[[bytes], None] | None = None
        self._rewrite: Rewrite | None = None
        self._events = False  # the client gets server-sent events that it can read
        self._over = False

    def carry(self, connection: UpstreamConnection, head: bytes, body: bytes, method: str) -> None:
        """Send the request; what comes of it goes to the client, and its end to the recipient."""
        self._connection = connection
        self._answer.watch(connection)
        connection.send(head, body, self, method=method)

    def unreachable(self, error: UpstreamError) -> None:
        """There was no connection to send on."""
        self._end(Verdict(error.outcome, passed=False, error=error))

    def abandon(self) -> None:
        """Nobody waits for the answer any more. The recipient hears nothing."""
        if self._over:
            return
        self._over = True
        if self._connection is not None:
            self._connection.abort()
        if self._answer.started and not self._answer.gone:
            self._cut_short(Stopping())
        self.attempt.end(Outcome.CLIENT_GONE)

    # Receiver

    def head(self, head: ResponseHead) -> None:
        self._head = head
        self._outcome = outcome_of(head.status)
        if self._outcome is not Outcome.OK and self._recipient.retries.allows(self._outcome):
            self._holding = True
        elif not self._recipient.hold_head:
            self._start()
            self._answer.flush()

    def body(self, data: bytes, complete: bool) -> None:
        """Runs for every chunk."""
        if not self._passing:
            if self._holding:
                self._keep_back(data, complete)
            else:
                self._first_bytes(data, complete)
            return
        if self._ear is not None:
            self._ear(data)
        if self._rewrite is not None:
            data = self._rewrite.feed(data, complete)
        self._answer.send(data, complete)
        if complete:
            self._complete()

    def broken(self, error: UpstreamError) -> None:
        if error.outcome.again is Again.RESENT:
            self._recipient.attempt_ended(Verdict(error.outcome, passed=False, error=error))
            return
        started = self._answer.started
        if started:
            silent = error.outcome in _SILENCES
            self._cut_short(
                ReplicaTimeout("The replica fell silent.", code="replica_timeout")
                if silent
                else ReplicaUnreachable("The replica broke off.", code="replica_broke_off")
            )
        outcome = Outcome.CUT_OFF if self._passing and error.outcome is Outcome.BROKEN else error.outcome
        self._end(Verdict(outcome, passed=started, error=error))

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
            self._exchange.first_byte_s = self._recipient.clock()
            self._recipient.first_byte_came()
            if self._outcome is Outcome.OK:
                self.attempt.first_byte()
                if self._exchange.route == "responses" and (response_id := response_id_in(data)):
                    self.attempt.responded(response_id)
        self._passing = True
        self.body(data, complete)

    # Both ends of the answer

    def _start(self) -> None:
        head = self._head
        self._rewrite = _rewrite_of(self._recipient, head)
        if self._outcome is Outcome.OK and head.fields.get(b"content-encoding", b"").lower() in _UNCHANGED:
            self._events = head.fields.get(b"content-type", b"")[: len(_EVENTS)].lower() == _EVENTS
            self._tap = StreamTap(stream=self._events)
            self._ear = self._tap.ear
        start_answer(self._recipient, self.attempt, head if self._rewrite is None else without_length(head))

    def _complete(self) -> None:
        outcome, usage = self._outcome, None
        if self._tap is not None:
            usage = self._exchange.usage = self._tap.usage()
            outcome = self._tap.fault or outcome
        self._end(_PASSED if outcome is Outcome.OK else Verdict(outcome, passed=True), usage)

    def _cut_short(self, reason: GatewayError) -> None:
        """There will be no more: say so in the stream if it has a place for that, else break off."""
        if self._tap is None or not self._events or self._head.has_length:
            self._answer.truncate()
            return
        rest = self._rewrite.feed(b"", last=True) if self._rewrite is not None else b""
        event = error_event(self._exchange.route, reason, mid_event=self._tap.mid_event())
        self._answer.send(rest + event, last=True)

    def _end(self, verdict: Verdict, usage: Usage | None = None) -> None:
        self._over = True
        retry_after_s = _retry_after_s(self._head) if verdict.outcome.backs_off else None
        self.attempt.end(verdict.outcome, retry_after_s=retry_after_s, usage=usage)
        self._recipient.attempt_ended(verdict)


def pass_held(recipient: Recipient, attempt: Attempt, held: HeldAnswer) -> None:
    """Answer with what a replica said while others were asked: none did better."""
    head, body = held
    rewrite = _rewrite_of(recipient, head)
    if rewrite is not None:
        head, body = without_length(head), rewrite.feed(body, last=True)
    start_answer(recipient, attempt, head)
    recipient.answer.send(body, last=True)


def _rewrite_of(recipient: Recipient, head: ResponseHead) -> Rewrite | None:
    """What changes an answer that can be read."""
    if head.fields.get(b"content-encoding", b"").lower() not in _UNCHANGED:
        return None
    return recipient.rewrite(head.fields.get(b"content-type", b""))


def start_answer(recipient: Recipient, attempt: Attempt, head: ResponseHead) -> None:
    """Begin to answer with what a replica said."""
    if head.status == 204:
        head = without_length(head)  # RFC 9110 section 8.6
    status, reason, lines, fields = head
    receipt = attempt.decision.headers() if recipient.show_receipt else ()
    headers = headers_to_client(lines, fields, receipt=receipt, request_id=recipient.exchange.request_id)
    recipient.answer.start(status, headers, has_length=b"content-length" in fields, reason=reason)


def without_length(head: ResponseHead) -> ResponseHead:
    """For a body that is changed on its way."""
    headers = [h for h in head.headers if h[0].lower() != b"content-length"]
    return head._replace(headers=headers, fields=fields_of(headers))


def _retry_after_s(head: ResponseHead) -> float | None:
    """Retry-After in seconds; its other form, a date, says nothing to a monotonic clock."""
    value = head.fields.get(b"retry-after", b"")
    return min(float(value), _MAX_RETRY_AFTER_S) if value.isdigit() else None
