"""Admission: how many requests, and how many of their prompt tokens, are at replicas at a time; who waits, who may not.

Synchronous: callbacks, no tasks, and one timer for all that wait. Each process counts for itself.

The order is strict: higher priority first, first come first served within one. Nobody overtakes the first in line, not
even a small request that would fit where a large one does not yet: else a stream of small ones would hold the large
one back for ever. The price is that some room stays empty while the large one waits for enough of it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from gateway.edge.freeing_pace import FreeingPace
from gateway.edge.waiting_line import WaitingLine
from gateway.errors import BadRequest, GatewayError, Overloaded, QueueTimeout

_log = logging.getLogger(__name__)

MAX_PRIORITY = 100

_Told = TypeVar("_Told")

_UNLIMITED = sys.maxsize

_RUNNING, _WAITING, _OVER = range(3)

Admitted = Callable[["Ticket"], None]
Expired = Callable[[GatewayError], None]


class _Turn(NamedTuple):
    """What is kept of a ticket only while it waits: afterwards it would tie its request into a cycle."""

    priority: int
    since_s: float
    admitted: Admitted
    expired: Expired


class Ticket:
    """One request's place, or its turn in the queue. Whoever entered must :meth:`release` it in the end."""

    __slots__ = ("_admission", "_state", "_turn", "queued_s", "tokens")

    def __init__(self, admission: Admission, tokens: int, turn: _Turn | None = None) -> None:
        self._admission = admission
        self._turn = turn
        self._state = _RUNNING if turn is None else _WAITING
        self.tokens = tokens
        self.queued_s = 0.0  # how long it waited for its place

    @property
    def waits(self) -> bool:
        """Whether it is in the queue."""
        return self._state == _WAITING

    def release(self) -> None:
        """Give the place back, or leave the queue: neither callback comes any more. Again, or after expiry: nothing.

        Who waited for it is admitted before this returns.
        """
        if self._state != _OVER:
            self._admission.take_back(self)


class Admission:
    """All counts are of now, or since the start; what waits is not in flight."""

    def __init__(
        self,
        *,
        max_inflight: int | None,
        max_inflight_tokens: int | None,
        max_queue: int,
        max_queue_tokens: int | None,
        queue_timeout_s: float,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """``None``: no limit. ``call_later``: as an event loop's."""
        self._max_inflight = _UNLIMITED if max_inflight is None else max_inflight
        self._max_inflight_tokens = _UNLIMITED if max_inflight_tokens is None else max_inflight_tokens
        self._max_queue = max_queue
        self._max_queue_tokens = _UNLIMITED if max_queue_tokens is None else max_queue_tokens
        self._queue_timeout_s = queue_timeout_s
        self._clock = clock
        self._call_later = call_later
        self._line: WaitingLine[Ticket] = WaitingLine()
        self._pace = FreeingPace()
        self._timer_runs = False
        self._calling_up = False
        self.inflight = 0
        self.inflight_tokens = 0
        self.waiting = 0
        self.waiting_tokens = 0
        self.preparing = 0  # have not asked for a place yet, and are worked for: kept by whoever enters
        self.admitted = 0
        self.refused = 0  # the queue was full
        self.expired = 0  # waited too long
        self.left = 0  # released while they waited

    def enter(self, tokens: int, priority: int, admitted: Admitted, expired: Expired) -> Ticket:
        """Take a place for a request of so many prompt tokens, or a turn in the queue.

        ``admitted`` gets the ticket, once: before this returns if there is a place. ``expired`` gets the error to
        answer with, once, if the turn did not come in time. Raises ``Overloaded`` if the queue is full too. A request
        that is larger than the limit of tokens gets a place when nothing else runs.

        What ``admitted`` raises before this returns is passed on, and the place is free again.
        """
        if (not self._line or priority > self._line.top) and self._fits(tokens):
            ticket = Ticket(self, tokens)
            self._count_in(tokens)
            try:
                admitted(ticket)
            except BaseException:
                ticket.release()
                raise
            return ticket
        return self._line_up(tokens, priority, admitted, expired)

    def refuse_if_full(self) -> None:
        """Raises ``Overloaded`` for what :meth:`enter` would refuse whatever its size: ask before work goes into it.

        Those that are worked for already will want the places that are free.
        """
        coming = self.waiting + self.preparing
        if coming < self._max_queue:
            return
        free = self._max_inflight - self.inflight
        if coming >= self._max_queue + free or self.inflight_tokens >= self._max_inflight_tokens:
            now = self._clock()
            self._pace.look(self._freed, now)
            self._refuse(now)

    def counts(self) -> dict[str, int]:
        """All of the counts, by their names."""
        return {
            "inflight": self.inflight,
            "inflight_tokens": self.inflight_tokens,
            "waiting": self.waiting,
            "waiting_tokens": self.waiting_tokens,
            "admitted": self.admitted,
            "refused": self.refused,
            "expired": self.expired,
            "left": self.left,
        }

    def take_back(self, ticket: Ticket) -> None:
        """What :meth:`Ticket.release` does; the ticket is not over yet."""
        if ticket._state == _RUNNING:
            ticket._state = _OVER
            self.inflight -= 1
            self.inflight_tokens -= ticket.tokens
        else:
            self._step_out(ticket)
            self.left += 1
        if self._line:
            self._call_up()

    def _fits(self, tokens: int) -> bool:
        if self.inflight >= self._max_inflight:
            return False
        return self.inflight_tokens + tokens <= self._max_inflight_tokens or not self.inflight

    def _count_in(self, tokens: int) -> None:
        self.inflight += 1
        self.inflight_tokens += tokens
        self.admitted += 1

    # The queue

    def _line_up(self, tokens: int, priority: int, admitted: Admitted, expired: Expired) -> Ticket:
        now = self._clock()
        self._pace.look(self._freed, now)
        too_large = self.waiting_tokens + tokens > self._max_queue_tokens and self.waiting
        if self.waiting >= self._max_queue or too_large:
            self._refuse(now)
        ticket = Ticket(self, tokens, _Turn(priority, now, admitted, expired))
        self._line.push(ticket, priority)
        self.waiting += 1
        self.waiting_tokens += tokens
        self._watch_the_clock(now)
        return ticket

    def _refuse(self, now: float) -> NoReturn:
        self.refused += 1
        raise Overloaded(self._pace.wait_s(self.waiting + 1, self._freed, now))

    @property
    def _freed(self) -> int:
        """Places that were given back since the start."""
        return self.admitted - self.inflight

    def _step_out(self, ticket: Ticket) -> _Turn:
        """Out of the queue, for whatever reason."""
        turn = ticket._turn
        assert turn is not None  # noqa: S101 - a ticket in the queue has one
        self._line.remove(ticket, turn.priority)
        self.waiting -= 1
        self.waiting_tokens -= ticket.tokens
        ticket._turn = None
        ticket._state = _OVER
        return turn

    def _call_up(self) -> None:
        """Admit who fits, in order. A callback that frees or wants a place comes back here: the one loop sees to it."""
        if self._calling_up:
            return
        self._calling_up = True
        try:
            while (ticket := self._line.first()) is not None and self._fits(ticket.tokens):
                turn = self._step_out(ticket)
                ticket.queued_s = self._clock() - turn.since_s
                ticket._state = _RUNNING
                self._count_in(ticket.tokens)
                if not _told(turn.admitted, ticket):
                    ticket.release()
        finally:
            self._calling_up = False

    # The clock

    def _watch_the_clock(self, now: float) -> None:
        """See that the timer runs while somebody waits. All wait equally long, so whoever came first is due first."""
        if not self._timer_runs and self._line:
            self._timer_runs = True
            self._call_later(max(0.0, self._oldest_since_s() + self._queue_timeout_s - now), self._ring)

    def _oldest_since_s(self) -> float:
        return min(ticket._turn.since_s for ticket in self._line.heads() if ticket._turn)

    def _ring(self) -> None:
        self._timer_runs = False
        now = self._clock()
        while due := [t for t in self._line.heads() if t._turn and t._turn.since_s + self._queue_timeout_s <= now]:
            for ticket in due:
                if ticket.waits:  # still: the callback of another may have released it
                    self._expire(ticket, now)
        self._watch_the_clock(now)
        self._call_up()

    def _expire(self, ticket: Ticket, now: float) -> None:
        turn = self._step_out(ticket)
        self.expired += 1
        retry_after_s = self._pace.wait_s(self.waiting + 1, self._freed, now)
        _told(turn.expired, QueueTimeout(self._queue_timeout_s, retry_after_s))


def _told(callback: Callable[[_Told], None], news: _Told) -> bool:
    """Whether the callback took it. Its fault is that of one request; the others' turns go on."""
    try:
        callback(news)
    except Exception:  # noqa: BLE001 - whatever it is, it is told, and is nothing to who released a place
        _log.exception("a request that waited could not go on")
        return False
    return True


def priority_of(text: bytes) -> int:
    """The priority that a client wrote: a whole number, cut to -100..100; none: 0.

    Raises ``BadRequest`` for anything else: a client that believes it goes first should know that it does not.
    """
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    if not digits.isdigit():
        if not text:
            return 0
        raise BadRequest("The priority must be a whole number, like 10 or -5.", param="x-prefixway-priority")
    size = MAX_PRIORITY if len(digits.lstrip(b"0")) > 3 else min(MAX_PRIORITY, int(digits[-4:]))
    return -size if text[:1] == b"-" else size
