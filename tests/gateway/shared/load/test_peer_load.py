"""Gateways that share what they dispatched, over a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from gateway.fleet.outcome import Outcome
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.redis_url import RedisTarget
from gateway.router.attempt import Attempt
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.load.peer_load import PeerLoad
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.examples import MODEL, Clock
from tests.gateway.shared.load.gateways import FOUR, TWO, Side

PROMPT = list(range(1000))


class _Monotonic(Clock):
    def __call__(self) -> float:
        return time.monotonic()


class _Gateway(NamedTuple):
    side: Side
    load: PeerLoad

    @property
    def counts(self) -> dict[str, int]:
        """Requests in flight, by replica."""
        return {replica.id: replica.workload.inflight for replica in self.side.pool.replicas}

    @property
    def inflight(self) -> int:
        return sum(self.counts.values())


@asynccontextmanager
async def _gateway(
    process_id: str, port: int, *, servers: str = TWO, timeout_s: float = 10.0, sync_s: float = 0.2
) -> AsyncIterator[_Gateway]:
    """It runs."""
    clock = _Monotonic()
    side = Side(process_id, servers=servers, clock=clock)
    link = RedisLink(RedisTarget.parse(f"redis://127.0.0.1:{port}"), clock=clock, timeout_s=timeout_s)
    load = side.load(link, sync_s=sync_s)
    async with running(load.run()):
        yield _Gateway(side, load)
    await link.close()


@asynccontextmanager
async def _gateways(*ports: int, servers: str = TWO, timeout_s: float = 10.0) -> AsyncIterator[list[_Gateway]]:
    """They know each other."""
    async with AsyncExitStack() as stack:
        starting = [
            _gateway(f"p{number}", port, servers=servers, timeout_s=timeout_s) for number, port in enumerate(ports)
        ]
        gateways = [await stack.enter_async_context(gateway) for gateway in starting]
        await eventually(lambda: all(gateway.load.stats.peers == len(ports) - 1 for gateway in gateways))
        yield gateways


async def _agree(gateways: Sequence[_Gateway], requests: int) -> None:
    """Return when all have the same ``requests`` in flight, everywhere."""
    await eventually(
        lambda: all(g.counts == gateways[0].counts and sum(g.counts.values()) == requests for g in gateways)
    )


async def test_what_one_dispatches_the_other_counts(redis_server: RedisServer) -> None:
    """Promised, in flight, expected; the first byte and the end release it there too."""
    async with _gateways(redis_server.port, redis_server.port) as (a, b):
        attempt = await a.side.attempt(PROMPT)
        id_ = attempt.decision.replica_id
        workload = b.side.replica(id_).workload
        await eventually(lambda: workload.inflight == 1)
        follow_up = await b.side.decide(PROMPT)

        assert (workload.own_inflight, workload.pending_tokens) == (0, 1000)
        assert workload.promised_s(time.monotonic()) > 0
        assert (follow_up.replica_id, follow_up.expected_tokens) == (id_, 992)
        attempt.first_byte()
        await eventually(lambda: workload.decoding == 1)
        attempt.end(Outcome.OK)
        await eventually(lambda: workload.inflight == 0)
        assert workload.promised_s(time.monotonic()) == 0.0


async def test_what_was_answered_stays_expected_everywhere(redis_server: RedisServer) -> None:
    """No events tell what the replicas hold: beyond the moment in which they would, every gateway remembers."""
    async with _gateways(redis_server.port, redis_server.port) as (a, b):
        attempt = await a.side.attempt(PROMPT)
        attempt.end(Outcome.OK)
        replica = b.side.replica(attempt.decision.replica_id)
        await eventually(lambda: "0 blocks in flight, 62 expected" in repr(b.side.routed))
        later = b.side.routed.match(_chains(b, PROMPT), [replica.key], now=time.monotonic() + 300)

    assert later == {replica.key: 992}


def _chains(gateway: _Gateway, prompt: Sequence[int]) -> dict[int, list[int]]:
    root = chain_root(gateway.side.secret.value, MODEL, "", "", 16)
    return {16: extend_chain(root, pack_tokens(prompt), 16)}


async def test_a_burst_of_one_new_prompt_stays_together(redis_server: RedisServer) -> None:
    """Once one gateway has sent it somewhere, what both get of it at the same time goes there, as with one gateway."""
    async with _gateways(redis_server.port, redis_server.port, servers=FOUR) as gateways:
        first = await gateways[0].side.attempt(PROMPT)
        await _agree(gateways, 1)
        burst = await _burst(gateways, [PROMPT] * 8)

    assert {attempt.decision.replica_id for attempt in burst} == {first.decision.replica_id}


async def test_a_burst_of_different_prompts_spreads(redis_server: RedisServer) -> None:
    """The fullest replica has at most two more than it would have with one gateway."""
    prompts = [[number, *range(1000)] for number in range(40)]
    async with _gateways(redis_server.port, redis_server.port, servers=FOUR) as gateways:
        for at in range(0, len(prompts), 4):
            await _burst(gateways, prompts[at : at + 4])
            await _agree(gateways, at + 4)
        shared = gateways[0].counts
    alone = Counter([(await attempt).decision.replica_id for attempt in _alone(prompts)])

    assert sum(shared.values()) == 40
    assert max(shared.values()) <= max(alone.values()) + 2


def _alone(prompts: Sequence[Sequence[int]]) -> list[Awaitable[Attempt]]:
    side = Side("p1", servers=FOUR)
    return [side.attempt(prompt) for prompt in prompts]


async def _burst(gateways: Sequence[_Gateway], prompts: Sequence[Sequence[int]]) -> list[Attempt]:
    """All at once, in turn to each gateway."""
    sides = [gateway.side for gateway in gateways]
    return await asyncio.gather(*(sides[number % len(sides)].attempt(prompt) for number, prompt in enumerate(prompts)))


async def test_whoever_stops_says_so(redis_server: RedisServer) -> None:
    """Its requests are gone at once, not after three syncs."""
    port = redis_server.port
    async with _gateway("p1", port, sync_s=60.0) as a:
        async with _gateway("p2", port, sync_s=60.0) as b:
            await b.side.attempt(PROMPT)
            await eventually(lambda: a.inflight == 1)
        await eventually(lambda: a.load.stats.peers == 0)

        assert a.inflight == 0


async def test_what_was_missed_is_made_good(redis_server: RedisServer) -> None:
    """For a while nothing comes through, in which requests begin and end; then the books agree again."""
    async with TcpProxy(redis_server.port) as proxy, _gateways(proxy.port, redis_server.port, timeout_s=0.3) as both:
        a, b = both
        over, running_on = await a.side.attempt(PROMPT), await a.side.attempt(list(range(2000, 3000)))
        await eventually(lambda: b.inflight == 2)
        proxy.cut()
        over.end(Outcome.OK)
        running_on.first_byte()
        await a.side.attempt(list(range(4000, 5000)))
        await eventually(lambda: a.load.stats.unsent > 0)
        await proxy.heal()
        await _agree(both, 2)
        running_on.end(Outcome.OK)
        await _agree(both, 1)

        assert b.inflight == 1


async def test_whoever_is_cut_off_takes_its_requests_along(redis_server: RedisServer) -> None:
    """At the others; and at the one that is cut off the others': it cannot know any more. Later both know again."""
    async with TcpProxy(redis_server.port) as proxy, _gateways(proxy.port, redis_server.port, timeout_s=0.3) as both:
        cut_off, other = both
        await cut_off.side.attempt(PROMPT)
        await other.side.attempt(list(range(2000, 3000)))
        await eventually(lambda: cut_off.inflight == other.inflight == 2)
        proxy.cut()
        await eventually(lambda: cut_off.inflight == other.inflight == 1)
        await proxy.heal()
        await eventually(lambda: cut_off.inflight == other.inflight == 2)


async def test_a_redis_that_is_not_there_costs_nothing_but_what_it_would_tell(redis_server: RedisServer) -> None:
    """Dispatches go on and do not pile up; when it comes, all is told."""
    async with TcpProxy(redis_server.port) as proxy:
        await proxy.refuse()
        async with _gateway("p1", proxy.port) as a, _gateway("p2", redis_server.port) as b:
            attempts = [await a.side.attempt(PROMPT) for _ in range(50)]
            await eventually(lambda: a.load.stats.unsent > 1)
            await proxy.heal()
            await eventually(lambda: b.inflight == 50)
            for attempt in attempts:
                attempt.end(Outcome.OK)
            await eventually(lambda: b.inflight == 0)


async def test_noise_on_the_channel_is_counted_and_does_nothing(redis_server: RedisServer) -> None:
    """Whoever may write to Redis may write anything."""
    async with _gateways(redis_server.port, redis_server.port) as (a, b):
        redis_server.client().publish(Keys().fleet("load"), b"\xc1 noise")
        await eventually(lambda: a.load.stats.unreadable == b.load.stats.unreadable == 1)
        await a.side.attempt(PROMPT)
        await eventually(lambda: b.inflight == 1)
