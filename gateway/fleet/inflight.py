"""InFlight: one attempt as its replica's books hold it, and Workload: those books.

Synchronous state; every method takes ``now`` in seconds of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.fleet.prefill_sample import PrefillSample, PrefillWork
from gateway.fleet.prefill_timer import PrefillTimer
from router_strategies._cost import promised_seconds


@dataclass(slots=True, eq=False)
class InFlight:
    """Made on dispatch, closed once. Another gateway's is booked as ours are: the replica serves them alike."""

    promised_s: float  # x, as promised to the replica
    unscaled_s: float  # x without trust and without calibration, for gateways that know no rates but this
    uncached_tokens: int
    kv_blocks: float  # blocks the request is expected to hold beside those it shares
    streamed: bool
    dispatched_s: float
    prefill_until_s: float = 0.0  # when its prefill is estimated to end: ends the promise of a plain answer
    first_byte_s: float | None = None
    ours: bool = True  # sent by this process
    asks_engine: bool = True  # False: that it is answered shows only that the server's process lives
    work: PrefillWork | None = None  # what it asks of the replica; None: not known, or its first token cannot be seen

    @property
    def answer_blocks(self) -> float:
        """Blocks that its answer is expected to fill."""
        return max(0.0, self.kv_blocks - 1)


class Workload:
    """What one replica was given, as far as this process knows, and has not finished.

    By this process, and by others that tell it; the counts that begin with ``own`` are of this process alone.
    """

    def __init__(self) -> None:
        self.inflight = 0
        self.own_inflight = 0
        self.ended = 0  # requests, since it began
        self.pending_tokens = 0  # uncached prompt tokens of requests without a first token
        self.kv_blocks = 0.0  # blocks that requests in flight are expected to hold beside those they share
        self._requests: set[InFlight] = set()
        self._pending: dict[InFlight, None] = {}  # without a first token, oldest first
        self._own_pending = 0
        self._pending_s = 0.0
        self._last_first_token_s = float("-inf")
        self._timer = PrefillTimer()
        self._next_expiry_s = float("inf")

    @property
    def decoding(self) -> int:
        """Requests past their first token."""
        return self.inflight - len(self._pending)

    @property
    def own_decoding(self) -> int:
        """Of this process's requests, those past their first token."""
        return self.own_inflight - self._own_pending

    def is_prefilling(self, request: InFlight, now: float) -> bool:
        """Whether the promise of ``request`` still stands."""
        self._expire(now)
        return request in self._pending

    def promised_s(self, now: float) -> float:
        """W: seconds of prefill promised and not yet done."""
        if not self._pending:
            return 0.0
        self._expire(now)
        if not self._pending:
            return 0.0
        oldest = next(iter(self._pending))
        since = max(self._last_first_token_s, oldest.dispatched_s)
        return promised_seconds(self._pending_s, oldest.promised_s, max(0.0, now - since))

    def dispatch(self, request: InFlight, now: float) -> None:
        request.prefill_until_s = now + self.promised_s(now) + request.promised_s
        self._requests.add(request)
        self.inflight += 1
        self.own_inflight += request.ours
        self.kv_blocks += request.kv_blocks
        self._pending[request] = None
        self._own_pending += request.ours
        self._pending_s += request.promised_s
        self.pending_tokens += request.uncached_tokens
        if not request.streamed:
            self._next_expiry_s = min(self._next_expiry_s, request.prefill_until_s)
            self._timer.unseen(request.prefill_until_s)

    def first_byte(self, request: InFlight, now: float) -> PrefillSample | None:
        """The first body byte came. A sample where prefills, maybe of several requests, are known from start to end."""
        if request.first_byte_s is not None or request not in self._requests:
            return None
        request.first_byte_s = now
        self._expire(now)
        if request not in self._pending:
            return None
        oldest, decoding = next(iter(self._pending)), self.decoding
        self._settle(request)
        self._last_first_token_s = now
        return self._timer.first_byte(request, oldest, decoding=decoding, others_wait=bool(self._pending), now=now)

    def end(self, request: InFlight) -> bool:
        """The attempt is over, however. ``False`` if it was already."""
        if request not in self._requests:
            return False
        if request in self._pending:
            is_oldest = next(iter(self._pending)) is request
            self._settle(request)
            if is_oldest:
                self._timer.gone(others_wait=bool(self._pending))
        self._requests.remove(request)
        self.inflight -= 1
        self.own_inflight -= request.ours
        self.ended += 1
        self.kv_blocks = self.kv_blocks - request.kv_blocks if self._requests else 0.0
        return True

    def told_late(self, now: float) -> None:
        """Another gateway's prefill began or ended unnoticed: whatever may have waited behind it is no sample."""
        self._timer.unseen(now)

    def _settle(self, request: InFlight) -> None:
        del self._pending[request]
        self._own_pending -= request.ours
        self.pending_tokens -= request.uncached_tokens
        # An empty queue is exactly 0: rounding must not pile up over millions of requests.
        self._pending_s = self._pending_s - request.promised_s if self._pending else 0.0

    def _expire(self, now: float) -> None:
        """Plain answers whose prefill is estimated to have ended hold no promise any more."""
        if now < self._next_expiry_s:
            return
        plain = [request for request in self._pending if not request.streamed]
        for request in plain:
            if request.prefill_until_s <= now:
                self._settle(request)
        waiting = (request.prefill_until_s for request in self._pending if not request.streamed)
        self._next_expiry_s = min(waiting, default=float("inf"))
