"""OwnLoad: this process's requests, as other gateways are to be told of them.

A listener of the router's. Pure state: what happened waits here until somebody sends it; what waits too long is thrown
away, since the next sync says the same. Does not know Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from itertools import islice
from typing import NamedTuple

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.kv.block_bytes import pack_blocks
from gateway.shared.load.load_messages import (
    MOST_BLOCKS,
    Dispatched,
    Ended,
    FirstByte,
    Left,
    OpenRequest,
    Record,
    ReplicaName,
    Sync,
    batches,
    encode,
)
from gateway.shared.processes.hash_secret import HashSecret

_MOST_WAITING = 10_000
_REQUESTS_A_SYNC = 4_000  # in one record: about 200 KB


class _Dispatch(NamedTuple):
    """A dispatch that waits. It is put into bytes when it is sent: not in the request's time, and maybe never."""

    number: int
    name: ReplicaName
    inflight: InFlight
    block_size: int
    chain: Sequence[int]

    def record(self) -> Dispatched:
        inflight = self.inflight
        return Dispatched(
            self.number,
            self.name,
            inflight.promised_s,
            inflight.uncached_tokens,
            inflight.kv_blocks,
            inflight.streamed,
            self.block_size,
            pack_blocks(self.chain[:MOST_BLOCKS]),
        )


class _Open(NamedTuple):
    number: int
    replica: Replica


class OwnLoad:
    """``changed`` is called when there is something to send. Numbers: see :mod:`gateway.shared.load.load_messages`."""

    def __init__(self, *, process_id: str, secret: HashSecret, pool: ReplicaPool, changed: Callable[[], None]) -> None:
        self._process_id = process_id
        self._secret = secret
        self._pool = pool
        self._changed = changed
        self._open: dict[InFlight, _Open] = {}  # by number, since they are given upwards
        self._waiting: list[_Dispatch | FirstByte | Ended] = []
        self._last_number = 0
        self._counter = 0
        self._owes_sync = True

    # DispatchListener

    def dispatched(self, replica: Replica, inflight: InFlight, block_size: int, chain: Sequence[int]) -> None:
        self._last_number += 1
        self._open[inflight] = _Open(self._last_number, replica)
        self._wait(_Dispatch(self._last_number, _name(replica), inflight, block_size, chain))

    def first_byte(self, inflight: InFlight, sample: PrefillSample | None) -> None:
        if (request := self._open.get(inflight)) is not None:
            self._wait(FirstByte(request.number, *(astuple(sample) if sample else ())))

    def ended(self, inflight: InFlight, kept: bool) -> None:
        if (request := self._open.pop(inflight, None)) is not None:
            self._wait(Ended(request.number, kept))

    # What is to be sent

    def owe_sync(self) -> None:
        """All open requests are told with what is sent next."""
        self._owes_sync = True
        self._changed()

    def take(self, now: float) -> Iterator[bytes]:
        """Envelopes with everything that waits, in order. It waits no more, whether they are sent or not."""
        records = self._take_waiting()
        if self._owes_sync:
            self._owes_sync = False
            records += self._sync(now)
        return self._sealed(records)

    def take_last(self) -> Iterator[bytes]:
        """Everything that waits, and that this process has no requests any more."""
        return self._sealed([*self._take_waiting(), Left()])

    def forget_waiting(self) -> None:
        """Throw away what waits, and owe a sync instead. Others see by the counter that they missed something."""
        self._waiting.clear()
        self._counter += 1
        self._owes_sync = True

    def _wait(self, what: _Dispatch | FirstByte | Ended) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self.forget_waiting()
        self._waiting.append(what)
        self._changed()

    def _take_waiting(self) -> list[Record]:
        waiting, self._waiting = self._waiting, []
        return [what.record() if isinstance(what, _Dispatch) else what for what in waiting]

    def _sealed(self, records: list[Record]) -> Iterator[bytes]:
        for batch in batches(records):
            self._counter += 1
            yield encode(self._process_id, self._secret.id, self._counter, batch)

    def _sync(self, now: float) -> list[Record]:
        """Of requests whose replica is in the pool: of others nothing counts any more, neither here nor elsewhere."""
        current = set(self._pool.replicas)
        requests = iter([entry for entry in self._open.items() if entry[1].replica in current])
        syncs: list[Record] = []
        first = 0
        while first <= self._last_number:
            part = list(islice(requests, _REQUESTS_A_SYNC))
            is_last = len(part) < _REQUESTS_A_SYNC
            last = self._last_number if is_last else part[-1][1].number
            syncs.append(_sync_of(part, first, last, now))
            first = last + 1
        return syncs


def _sync_of(part: Sequence[tuple[InFlight, _Open]], first: int, last: int, now: float) -> Sync:
    replicas: dict[Replica, int] = {}
    rows = []
    for inflight, (number, replica) in part:
        rows.append(
            OpenRequest(
                number,
                replicas.setdefault(replica, len(replicas)),
                max(0.0, now - inflight.dispatched_s),
                inflight.promised_s,
                inflight.uncached_tokens,
                inflight.kv_blocks,
                inflight.streamed,
                replica.workload.is_prefilling(inflight, now),
            )
        )
    return Sync(first, last, [_name(replica) for replica in replicas], rows)


def _name(replica: Replica) -> ReplicaName:
    return ReplicaName(replica.key.namespace, replica.key.server_id, replica.key.rank)
