"""Attempt: one try at one replica. It owns its entries in the books, released exactly once."""

from __future__ import annotations

from collections.abc import Callable

from gateway.fleet.inflight import InFlight
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed, RoutedEntry
from gateway.router.decision import Decision
from gateway.usage import Usage


class Attempt:
    """Booked when it is made; :meth:`end` is called whatever happens, and only its first call counts.

    ``keep_routed`` says at the end whether what was sent is all that will be known of the replica's cache.
    """

    def __init__(
        self,
        decision: Decision,
        replica: Replica,
        inflight: InFlight,
        routed_entry: RoutedEntry,
        *,
        routed: Routed,
        speeds: Speeds,
        keep_routed: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self.decision = decision
        self._replica = replica
        self._inflight = inflight
        self._routed_entry = routed_entry
        self._routed = routed
        self._speeds = speeds
        self._keep_routed = keep_routed
        self._clock = clock
        now = clock()
        replica.server.breaker.sent(now)
        replica.workload.dispatch(inflight, now)

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
        sample = self._replica.workload.first_byte(self._inflight, self._clock())
        if sample is not None:
            self._speeds.prefill_seen(sample)

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None:
        """It is over. ``retry_after_s``: what the replica asked for with a 429 or 503."""
        if not self._replica.workload.end(self._inflight):
            return
        now = self._clock()
        self._routed.end(self._routed_entry, now=now, keep=outcome is Outcome.OK and self._keep_routed())
        self._replica.server.attempt_ended(outcome, retry_after_s, now, self._inflight.dispatched_s)
        if outcome is Outcome.OK:
            self._learn(now, usage)

    def _learn(self, now: float, usage: Usage | None) -> None:
        if usage is not None:
            self._speeds.output_seen(usage.completion_tokens)
        if self._inflight.streamed and self._inflight.first_byte_s is not None:
            self._speeds.decode_seen(now - self._inflight.first_byte_s)
