"""Attempt: one try at one replica. It owns its entries in the books, released exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.fleet.inflight import InFlight
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.router.decision import Decision
from gateway.router.dispatch_listener import DispatchListener
from gateway.usage import Usage


class Attempt:
    """Booked when it is made; :meth:`end` is called whatever happens, and only its first call counts.

    ``chain``: own hashes of the prompt's full blocks of ``block_size`` tokens; empty where they are not known.
    ``keep_routed`` says at the end whether what was sent is all that will be known of the replica's cache.
    """

    def __init__(
        self,
        decision: Decision,
        replica: Replica,
        inflight: InFlight,
        chain: Sequence[int],
        *,
        block_size: int,
        routed: Routed,
        speeds: Speeds,
        keep_routed: Callable[[], bool],
        listener: DispatchListener,
        clock: Callable[[], float],
    ) -> None:
        self.decision = decision
        self._replica = replica
        self._inflight = inflight
        self._routed = routed
        self._speeds = speeds
        self._keep_routed = keep_routed
        self._listener = listener
        self._clock = clock
        now = clock()
        replica.server.breaker.sent(now)
        replica.workload.dispatch(inflight, now)
        self._routed_entry = routed.add(replica.key, {block_size: chain} if chain else {}, now=now)
        listener.dispatched(replica, inflight, block_size, chain)

    @property
    def server_id(self) -> str:
        return self._replica.server.id

    @property
    def origin(self) -> Origin:
        return self._replica.server.spec.origin

    @property
    def pinned_rank(self) -> int | None:
        """The data-parallel rank to name to the server; ``None``: it has only one."""
        return self._replica.pinned_rank

    def first_byte(self) -> None:
        """The first body byte of a good answer came: its prefill is done."""
        was_first = self._inflight.first_byte_s is None
        sample = self._replica.workload.first_byte(self._inflight, self._clock())
        if was_first and self._inflight.first_byte_s is not None:
            self._listener.first_byte(self._inflight, sample)
        if sample is not None:
            self._speeds.prefill_seen(sample)

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None:
        """It is over. ``retry_after_s``: what the replica asked for with a 429 or 503."""
        if not self._replica.workload.end(self._inflight):
            return
        now = self._clock()
        keep = outcome is Outcome.OK and self._keep_routed()
        self._routed.end(self._routed_entry, now=now, keep=keep)
        self._listener.ended(self._inflight, keep)
        self._replica.server.attempt_ended(outcome, retry_after_s, now, self._inflight.dispatched_s)
        if outcome is Outcome.OK:
            self._learn(now, usage)

    def _learn(self, now: float, usage: Usage | None) -> None:
        if usage is not None:
            self._speeds.output_seen(usage.completion_tokens)
        if self._inflight.streamed and self._inflight.first_byte_s is not None:
            self._speeds.decode_seen(now - self._inflight.first_byte_s)
