"""A gateway's books and router without HTTP, as several of them share what they dispatch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillWork
from gateway.fleet.replica import Replica
from gateway.fleet.speeds import Speeds
from gateway.kv.routed import Routed
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.decision import Decision
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.own_load import OwnLoad
from gateway.shared.load.peer_load import PeerLoad
from gateway.shared.load.peer_requests import Books, Space
from gateway.shared.load.peers import Peers
from gateway.shared.processes.hash_secret import HashSecret
from tests.gateway.examples import MODEL, SECRET, Clock, Events, a_pool, a_router

TWO = "a=http://a:1,b=http://b:1"
FOUR = ",".join(f"{id_}=http://{id_}:1" for id_ in "abcd")


class Side:
    """One gateway: what it knows of the fleet and what it does there."""

    def __init__(
        self,
        process_id: str,
        *,
        servers: str = TWO,
        clock: Clock | None = None,
        secret: bytes = SECRET,
        events: Events | None = None,
    ) -> None:
        self.process_id = process_id
        self.clock = clock or Clock()
        self.secret = HashSecret(secret)
        self.pool = a_pool(servers)
        self.routed = Routed()
        self.speeds = Speeds()
        self.router = a_router(self.pool, clock=self.clock, routed=self.routed, events=events, speeds=self.speeds)
        self.space = Space()
        self.books = Books(self.pool, self.routed, self.router.utilisation, self.speeds, self.router, self.space)
        self.own = OwnLoad(process_id=process_id, secret=self.secret, pool=self.pool, changed=lambda: None)
        self.peers = Peers(self.books, process_id=process_id, secret=self.secret)

    # Over a real link

    def load(self, link: RedisLink, *, sync_s: float = 0.2) -> PeerLoad:
        """Its load, shared over ``link``; the router tells it."""
        load = PeerLoad(
            link,
            Keys(),
            process_id=self.process_id,
            secret=self.secret,
            pool=self.pool,
            routed=self.routed,
            utilisation=self.router.utilisation,
            speeds=self.speeds,
            knowledge=self.router,
            clock=self.clock,
            sync_s=sync_s,
        )
        self.router.listen(load)
        return load

    # Hand to hand

    def hears(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.peers.received(payload, self.clock.now)

    def says(self) -> list[bytes]:
        return list(self.own.take(self.clock.now))

    # What it does and knows

    def replica(self, id_: str) -> Replica:
        return next(replica for replica in self.pool.replicas if replica.id == id_)

    async def attempt(self, prompt: Sequence[int]) -> Attempt:
        """A completion of these token ids, sent to whichever replica the router chooses."""
        return self.router.attempt(await self.router.prepare(self._request(prompt)))

    async def decide(self, prompt: Sequence[int]) -> Decision:
        """What would be chosen for it now."""
        decision = (await self.router.explain(self._request(prompt))).decision
        assert decision is not None
        return decision

    def _request(self, prompt: Sequence[int]) -> InferenceRequest:
        body = {"model": MODEL, "prompt": list(prompt), "stream": True}
        return InferenceRequest.parse("completions", json.dumps(body).encode())

    def dispatch(self, id_: str, promised_s: float = 0.5, *, streamed: bool = True) -> InFlight:
        """A request of its own in the books of a replica, told to the others; no prompt."""
        replica, now = self.replica(id_), self.clock.now
        work = PrefillWork(promised_s * 8_000, 0.0, 1.0, 0.0, 0.0) if streamed else None
        inflight = InFlight(promised_s, promised_s, 100, 2.0, streamed, now, work=work)
        replica.workload.dispatch(inflight, now)
        self.own.dispatched(replica, inflight, 16, ())
        return inflight

    def first_byte(self, id_: str, inflight: InFlight) -> None:
        sample = self.replica(id_).workload.first_byte(inflight, self.clock.now)
        self.own.first_byte(inflight, sample)

    def end(self, id_: str, inflight: InFlight) -> None:
        self.replica(id_).workload.end(inflight)
        self.own.ended(inflight, False)

    def load_of(self, id_: str) -> tuple[int, int, int]:
        """Requests, those that decode, and uncached tokens of those that do not."""
        workload = self.replica(id_).workload
        workload.promised_s(self.clock.now)
        return workload.inflight, workload.decoding, workload.pending_tokens

    def promised_s(self, id_: str) -> float:
        return self.replica(id_).workload.promised_s(self.clock.now)

    def is_idle(self) -> bool:
        """Whether nothing at all is in the books, to the last bit."""
        return all(map(partial(_is_idle, now=self.clock.now), self.pool.replicas))


def _is_idle(replica: Replica, now: float) -> bool:
    workload = replica.workload
    sums = (workload.inflight, workload.own_inflight, workload.pending_tokens, workload.kv_blocks)
    return not any(sums) and workload.promised_s(now) == 0.0
