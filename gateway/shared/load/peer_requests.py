"""PeerRequests: one other gateway's requests, booked here as if they were ours.

The replica serves them alike, so the books hold them alike: promised work, requests in flight, blocks on their way,
utilisation. What is learned from requests (speeds, breaker, back-off) is learned where they are carried only.
Pure state, told the time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.replica import Replica
from gateway.fleet.replica_key import ReplicaKey
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.fleet.utilisation import Utilisation
from gateway.kv.block_bytes import BLOCK_BYTES, unpack_blocks
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.routed import Routed, RoutedEntry
from gateway.shared.load.load_messages import Dispatched, OpenRequest, ReplicaName, Sync

_MOST_OF_ONE_PEER = 100_000  # requests


class ReplicaKnowledge(Protocol):
    """What this process knows of a replica's cache."""

    def block_size(self, replica: Replica) -> int:
        """Tokens of one block, as prompts for it are hashed here."""
        ...

    def is_told_nothing(self, replica: Replica) -> bool:
        """Whether no events tell what it holds."""
        ...


@dataclass(slots=True)
class Space:
    """How much all peers together may still book here: what strangers send must not fill the memory."""

    requests: int = 200_000
    blocks: int = 4_000_000


class Books(NamedTuple):
    """What requests are booked in."""

    pool: ReplicaPool
    routed: Routed
    utilisation: Utilisation
    speeds: Speeds
    knowledge: ReplicaKnowledge
    space: Space
    l2: L2Estimate | None = None


class _Booked(NamedTuple):
    replica: Replica
    inflight: InFlight
    entry: RoutedEntry | None  # None: its blocks are not known


class PeerRequests:
    """By the numbers that the peer gave them. A number that is not known is ignored, a sync brings it."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._open: dict[int, _Booked] = {}

    def __len__(self) -> int:
        return len(self._open)

    def dispatched(self, told: Dispatched, now: float, *, same_secret: bool) -> None:
        """``same_secret``: its blocks are hashed as ours are."""
        replica = self._find(told.replica)
        if replica is None or told.number in self._open or not self._has_room():
            return
        inflight = _inflight(told, now)
        replica.workload.dispatch(inflight, now)
        self._books.utilisation.dispatched(inflight.promised_s, now)
        self._book(told.number, replica, inflight, self._expect(told, replica, now) if same_secret else None)

    def first_byte(self, number: int, now: float, sample: PrefillSample | None = None) -> None:
        """``sample``: what the peer learned of how fast replicas are, which is as true here."""
        if (booked := self._open.get(number)) is not None:
            self._settle(booked, now)
            if sample is not None:
                self._books.speeds.prefill_seen(sample, now)

    def ended(self, number: int, now: float, *, kept: bool) -> None:
        """``kept``: the peer is told nothing by events. What tells us more is believed here."""
        booked = self._open.pop(number, None)
        if booked is None:
            return
        books = self._books
        books.space.requests += 1
        booked.replica.workload.end(booked.inflight)
        if booked.entry is not None:
            books.space.blocks += len(booked.entry.blocks)
            keep = kept and books.knowledge.is_told_nothing(booked.replica)
            books.routed.end(booked.entry, now=now, keep=keep, answer_blocks=booked.inflight.answer_blocks)
            if books.l2 is not None and booked.inflight.first_byte_s is not None:  # how it ended is not told
                books.l2.finished(booked.entry.blocks, booked.entry.block_size, now=now)

    def agree(self, told: Sync, now: float) -> None:
        """Of the numbers that ``told`` is about, have exactly its requests open, as it tells them."""
        replicas = [self._find(name) for name in told.replicas]
        agreed = {
            request.number
            for request in told.requests
            if request.replica < len(replicas) and self._agree(request, replicas[request.replica], now)
        }
        self._end_all([n for n in self._open if told.first <= n <= told.last and n not in agreed], now)

    def end_all(self, now: float) -> None:
        """None of them is to be believed any more."""
        self._end_all(list(self._open), now)

    def _agree(self, told: OpenRequest, replica: Replica | None, now: float) -> bool:
        if replica is None:
            return False
        booked = self._open.get(told.number)
        if booked is not None and booked.replica is not replica:
            self.ended(told.number, now, kept=False)
            booked = None
        if booked is None:
            return self._dispatched_unnoticed(told, replica, now)
        if not told.prefilling and replica.workload.is_prefilling(booked.inflight, now):
            self._settle_late(booked, now)
        return True

    def _dispatched_unnoticed(self, told: OpenRequest, replica: Replica, now: float) -> bool:
        if not self._has_room():
            return False
        inflight = _inflight(told, now - told.age_s)
        replica.workload.dispatch(inflight, now)
        booked = self._book(told.number, replica, inflight, None)
        if told.prefilling:
            self._books.utilisation.dispatched(inflight.promised_s, now)
            replica.workload.told_late(now)
        else:
            self._settle_late(booked, now)
        return True

    def _settle_late(self, booked: _Booked, now: float) -> None:
        self._settle(booked, now)
        booked.replica.workload.told_late(now)

    def _settle(self, booked: _Booked, now: float) -> None:
        """Its prefill is done. What was held back of ours may end with it, and is learned from here or never."""
        ours = booked.replica.workload.first_byte(booked.inflight, now)
        if ours is not None:
            self._books.speeds.prefill_seen(ours, now)

    def _end_all(self, numbers: Collection[int], now: float) -> None:
        for number in numbers:
            self.ended(number, now, kept=False)

    def _book(self, number: int, replica: Replica, inflight: InFlight, entry: RoutedEntry | None) -> _Booked:
        booked = self._open[number] = _Booked(replica, inflight, entry)
        self._books.space.requests -= 1
        self._books.space.blocks -= len(entry.blocks) if entry else 0
        return booked

    def _expect(self, told: Dispatched, replica: Replica, now: float) -> RoutedEntry | None:
        """Its blocks are on their way, where they can be compared with ours and there is room for them."""
        books, count = self._books, len(told.blocks) // BLOCK_BYTES
        if not count or told.block_size != books.knowledge.block_size(replica) or books.space.blocks < count:
            return None
        if replica.kv_tokens:
            books.routed.set_capacity(replica.key, replica.kv_tokens)
        blocks = unpack_blocks(told.blocks[: count * BLOCK_BYTES])
        return books.routed.add(replica.key, {told.block_size: blocks}, now=now)

    def _find(self, name: ReplicaName) -> Replica | None:
        replica = self._books.pool.replica(ReplicaKey(name.namespace, name.server_id, name.rank))
        return replica if replica is not None and replica.key.namespace == name.namespace else None

    def _has_room(self) -> bool:
        return self._books.space.requests > 0 and len(self._open) < _MOST_OF_ONE_PEER


def _inflight(told: Dispatched | OpenRequest, dispatched_s: float) -> InFlight:
    return InFlight(
        promised_s=told.promised_s,
        unscaled_s=0.0,  # no sample comes of it
        uncached_tokens=told.uncached_tokens,
        kv_blocks=told.kv_blocks,
        streamed=told.streamed,
        dispatched_s=dispatched_s,
        ours=False,
    )
