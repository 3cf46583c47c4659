"""Attempt: one try at one replica. It owns its entries in the books, released exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.fleet.inflight import InFlight
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from gateway.fleet.replica import Replica
from gateway.fleet.response_home import Home
from gateway.fleet.speeds import Speeds
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.routed import Routed
from gateway.router.claim import Claim
from gateway.router.decision import Decision
from gateway.router.dispatch_listener import DispatchListener
from gateway.router.response_homes import ResponseHomes
from gateway.usage import Usage


class Books(NamedTuple):
    """What every attempt is entered in, besides its replica's own books.

    ``keep_routed`` says at the end whether what was sent is all that will be known of the replica's cache.
    """

    routed: Routed
    speeds: Speeds
    keep_routed: Callable[[Replica], bool]
    listener: DispatchListener
    clock: Callable[[], float]
    homes: ResponseHomes
    l2: L2Estimate | None = None


class Attempt:
    """Booked when it is made; :meth:`end` is called whatever happens, and only its first call counts.

    ``chain``: own hashes of the prompt's full blocks of ``block_size`` tokens; empty where they are not known.
    ``claim``: what was predicted of it, for whoever puts that to the test; ``None``: its prompt was not read.
    ``stored_as``: the alias of the model under which its response may be asked for, if any; ``None``: it is not kept.
    """

    __slots__ = ("_books", "_claim", "_inflight", "_replica", "_routed_entry", "_stored_as", "decision")

    def __init__(
        self,
        decision: Decision,
        replica: Replica,
        inflight: InFlight,
        chain: Sequence[int],
        *,
        block_size: int,
        books: Books,
        claim: Claim | None = None,
        stored_as: str | None = "",
    ) -> None:
        self.decision = decision
        self._claim = claim
        self._replica = replica
        self._stored_as = stored_as
        self._inflight = inflight
        self._books = books
        now = inflight.dispatched_s
        replica.server.sent(now)
        replica.workload.dispatch(inflight, now)
        self._routed_entry = books.routed.add(replica.key, {block_size: chain}, now=now) if chain else None
        books.listener.dispatched(replica, inflight, block_size, chain)

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
        now = self._books.clock()
        sample = self._replica.workload.first_byte(self._inflight, now)
        if was_first and self._inflight.first_byte_s is not None:
            if self._claim is not None:
                self._claim.first_byte()
            if self._inflight.asks_engine:
                self._replica.server.answered(now, self._inflight.dispatched_s)
            self._books.listener.first_byte(self._inflight, sample)
        if sample is not None:
            self._books.speeds.prefill_seen(sample, now)

    def responded(self, response_id: str) -> None:
        """The server's answer has this id: what refers to it must reach the same server, if it is kept there."""
        if self._stored_as is not None:
            self._books.homes.learned(response_id, Home(self.server_id, self._stored_as))

    def end(self, outcome: Outcome, *, retry_after_s: float | None = None, usage: Usage | None = None) -> None:
        """It is over. ``retry_after_s``: what the replica asked for with a 429 or 503."""
        if not self._replica.workload.end(self._inflight):
            return
        inflight, books = self._inflight, self._books
        now = books.clock()
        keep = False
        if self._routed_entry is not None:
            keep = outcome is Outcome.OK and books.keep_routed(self._replica)
            answer_blocks = inflight.answer_blocks
            if usage is not None:
                answer_blocks = usage.completion_tokens / self._routed_entry.block_size
            books.routed.end(self._routed_entry, now=now, keep=keep, answer_blocks=answer_blocks)
            if books.l2 is not None and outcome is Outcome.OK:
                books.l2.finished(self._routed_entry.blocks, self._routed_entry.block_size, now=now)
        books.listener.ended(inflight, keep)
        asked = inflight.asks_engine
        self._replica.server.attempt_ended(
            outcome,
            retry_after_s,
            now,
            sent_s=inflight.dispatched_s,
            answered=asked and inflight.first_byte_s is not None,
            asked_engine=asked,
        )
        if outcome is Outcome.OK:
            self._learn(now, usage)
            if self._claim is not None:
                self._claim.ended(usage)

    def _learn(self, now: float, usage: Usage | None) -> None:
        if usage is not None:
            self._books.speeds.output_seen(usage.completion_tokens)
        if self._inflight.streamed and self._inflight.first_byte_s is not None:
            self._books.speeds.decode_seen(now - self._inflight.first_byte_s)
