"""PeerLoad: keeps this gateway's books and those of the others the same, over a channel in Redis.

Every dispatch, first byte and end is published, and once a second all open requests, so that whoever missed something
agrees again. A process that is not heard any more takes its requests with it; where our own link is down nobody is
heard, and the gateway goes on with what it knows of itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillSample
from gateway.fleet.replica import Replica
from gateway.fleet.replica_pool import ReplicaPool
from gateway.fleet.speeds import Speeds
from gateway.fleet.utilisation import Utilisation
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.routed import Routed
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisError
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.own_load import OwnLoad
from gateway.shared.load.peer_requests import Books, ReplicaKnowledge, Space
from gateway.shared.load.peers import Peers
from gateway.shared.processes.hash_secret import HashSecret

_PAUSE_S = 0.002  # after each sending: what happens meanwhile is sent together
_SYNCS_MISSED = 3  # by a process that is gone


@dataclass(frozen=True, slots=True)
class LoadStats:
    """Envelopes since the start, and what is known now. ``missed``: others' that did not come here."""

    sent: int
    unsent: int
    received: int
    missed: int
    unreadable: int
    refused: int
    peers: int
    peer_inflight: int


class PeerLoad:
    """A listener of the router's. :meth:`run` it once; what is told before is sent then."""

    def __init__(
        self,
        link: RedisLink,
        keys: Keys,
        *,
        process_id: str,
        secret: HashSecret,
        pool: ReplicaPool,
        routed: Routed,
        utilisation: Utilisation,
        speeds: Speeds,
        knowledge: ReplicaKnowledge,
        l2: L2Estimate | None = None,
        clock: Callable[[], float],
        sync_s: float = 1.0,
    ) -> None:
        """``clock`` is the router's. ``knowledge``: what this process knows of replicas' caches. ``sync_s``: between
        two syncs, the same for the whole fleet; whoever misses three is gone.
        """
        self._link = link
        self._channel = keys.fleet("load")
        self._clock = clock
        self._sync_s = sync_s
        self._news = asyncio.Event()
        self._own = OwnLoad(process_id=process_id, secret=secret, pool=pool, changed=self._news.set)
        books = Books(pool, routed, utilisation, speeds, knowledge, Space(), l2)
        self._peers = Peers(books, process_id=process_id, secret=secret)
        self._outgoing: deque[bytes] = deque()  # what is being sent, until it was
        self._sent = self._unsent = 0

    @property
    def stats(self) -> LoadStats:
        return LoadStats(
            self._sent, self._unsent, **self._peers.counts, peers=len(self._peers), peer_inflight=self._peers.inflight
        )

    async def run(self) -> None:
        """Tell and hear until cancelled; then say goodbye, for which the link must still be open."""
        try:
            async with asyncio.TaskGroup() as group:
                for part in (self._send(), self._receive(), self._owe_syncs(), self._sweep()):
                    group.create_task(part)
        except asyncio.CancelledError:
            self._outgoing.extend(self._own.take_last())
            await self._publish()
            raise
        finally:
            self._peers.drop_all(self._clock())

    # DispatchListener

    def dispatched(self, replica: Replica, inflight: InFlight, block_size: int, chain: Sequence[int]) -> None:
        self._own.dispatched(replica, inflight, block_size, chain)

    def first_byte(self, inflight: InFlight, sample: PrefillSample | None) -> None:
        self._own.first_byte(inflight, sample)

    def ended(self, inflight: InFlight, kept: bool) -> None:
        self._own.ended(inflight, kept)

    # Telling

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._outgoing.extend(self._own.take(self._clock()))
            if await self._publish():
                await asyncio.sleep(_PAUSE_S)
            else:
                await asyncio.sleep(self._sync_s)
                self._own.forget_waiting()
                self._news.set()

    async def _publish(self) -> bool:
        """Whether all went out. After one that did not, the rest is not tried: a sync will make it good."""
        while self._outgoing:
            try:
                await self._link.publish(self._channel, self._outgoing[0])
            except RedisError:
                self._unsent += len(self._outgoing)
                self._outgoing.clear()
                return False
            self._outgoing.popleft()
            self._sent += 1
        return True

    async def _owe_syncs(self) -> None:
        while True:
            self._own.owe_sync()
            await asyncio.sleep(self._sync_s)

    # Hearing

    async def _receive(self) -> None:
        while True:
            try:
                async for payload in self._link.subscribe(self._channel):
                    self._peers.received(payload, self._clock())
            except RedisError:
                await asyncio.sleep(self._sync_s / 2)

    async def _sweep(self) -> None:
        while True:
            before_s = self._clock()
            await asyncio.sleep(self._sync_s / 2)
            now = self._clock()
            if now - before_s < self._sync_s:  # else it was this process that did not listen
                self._peers.drop_silent(now, after_s=_SYNCS_MISSED * self._sync_s)
