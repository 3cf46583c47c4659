"""The recovery matrix: whatever happens to a stream, the index holds nothing that the engine does not.

Each cell is a test over real sockets, against a simulated engine's own cache. "Exact": the index equals the cache.
"Partial": it holds a part of it, never anything else, and equals it once the cache's content was replaced; what is
stored on top of a block that was ever told of brings back the whole prefix before that.

    what happens                         replay covers     replay too short   no replay port
    -----------------------------------  ----------------  -----------------  -------------------------
    a frame is lost                      exact             partial            partial
    a frame comes twice                  exact                                exact
    the gateway comes late, or restarts  exact, complete   partial            partial
    the engine restarts, from 0          exact, a new key                     exact, a new key
    ... and is past the old number       exact, a new key                     nothing held, then partial
    ... and is idle                      exact, a new key                     nothing held
    another replica takes over the URL   exact, a new key
    a replay older than live removals    exact
    reset while idle                     exact from the first step on, which is the first that tells
    sleep and wake                       nothing held from when it is seen, then exact
    a flood beyond the high-water mark   exact             partial
    a slow consumer                      exact
    the replay port fails, then works    partial, then exact and complete
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from gateway.fleet.event_source import EventSource
from gateway.fleet.server_spec import parse_servers
from gateway.kv.tiers import Tier
from loadtest.replica.block_cache import CacheScope
from loadtest.replica.publisher import ANY_PORT, EventPublisher
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.kv.recovery_rig import CAPACITY, QUICK, Engine, blocks_of, gateway

SHORT = 3  # batches, in a buffer that reaches back to almost nothing


@asynccontextmanager
async def engine(
    *, replay: bool = True, buffer_steps: int = 20_000, high_water_mark: int = 1000
) -> AsyncIterator[Engine]:
    """An engine that has published nothing yet."""
    async with EventPublisher(
        replay_endpoint=ANY_PORT if replay else None, buffer_steps=buffer_steps, high_water_mark=high_water_mark
    ) as publisher:
        yield Engine(publisher)


@asynccontextmanager
async def proxied(endpoint: str | None) -> AsyncIterator[tuple[TcpProxy, str]]:
    """A proxy before a ZeroMQ endpoint, and the endpoint to use instead."""
    assert endpoint is not None
    port = urlsplit(endpoint).port
    assert port is not None
    async with TcpProxy(port) as proxy:
        yield proxy, f"tcp://127.0.0.1:{proxy.port}"


# Lost and repeated frames


async def test_a_lost_frame_that_replay_covers() -> None:
    """Exact; nothing that was known is given up for it."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0, 0), (0, 0, 1))
        await here.exact(one)
        one.publisher.drop_frames(2)
        one.serve((0, 1), (0, 1, 1), (1, 1))
        await here.exact(one)

        assert (here.stats.gaps, here.stats.lost, here.stats.complete) == (1, {}, True)


async def test_a_lost_removal_that_replay_covers() -> None:
    """What it removed is not held any more, though other batches came in between."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0, 0, 0))
        await here.exact(one)
        before = here.held()
        one.publisher.drop_frames(CAPACITY)
        one.turn_over()
        one.publisher.drop_frames(0)
        one.serve((1, 1))
        await here.exact(one)

        assert not before & here.held()


@pytest.mark.parametrize(("replay", "reason"), [(True, "unreplayable"), (False, "gap")])
async def test_a_lost_frame_that_nothing_covers(replay: bool, reason: str) -> None:
    """Partial; a hot prefix comes back with the first block on top of it, and the rest with time."""
    async with engine(replay=replay, buffer_steps=SHORT) as one, gateway(one) as here:
        one.serve((0, 0, 0, 0), (1, 1))
        await here.exact(one)
        one.publisher.drop_frames(SHORT + 1)
        one.serve(*((2, step) for step in range(SHORT + 1)))
        one.serve((3, 0))
        await here.partial(one)
        assert (here.stats.gaps, here.stats.lost, here.stats.complete) == (1, {reason: 1}, False)

        one.serve((0, 0, 0, 0, 1))
        await eventually(lambda: blocks_of((0, 0, 0, 0, 1)) <= here.held())
        await here.partial(one)
        await here.converges(one)


@pytest.mark.parametrize("replay", [True, False])
async def test_a_frame_that_comes_twice_counts_once(replay: bool) -> None:
    """Its copies too: one removal is enough."""
    async with engine(replay=replay) as one, gateway(one) as here:
        one.serve((0, 0, 0))
        await here.exact(one)
        sequence, payload = one.publisher._buffer[-1]
        assert one.publisher._publish_socket is not None
        for _ in range(3):
            one.publisher._publish_socket.send_multipart([b"", sequence.to_bytes(8, "big"), payload])
        one.serve((1, 0))
        await here.exact(one)
        batches = here.stats.batches
        assert (batches, here.stats.gaps, here.stats.restarts) == (2, 0, 0)

        await here.converges(one)


# Coming late


@pytest.mark.parametrize(("replay", "buffer_steps"), [(True, 1000), (True, SHORT), (False, 1000)])
async def test_a_gateway_that_comes_late_or_restarts(replay: bool, buffer_steps: int) -> None:
    """Exact where the replay reaches back to the beginning; else what it does not tell is missing."""
    covered = replay and buffer_steps > SHORT
    async with engine(replay=replay, buffer_steps=buffer_steps) as one:
        for _ in range(2):  # the second one is a gateway that restarted
            one.serve((0, 0, 0), (0, 0, 1), (1, 0), (1, 1), (2, 0), (2, 1))
            async with gateway(one) as here:
                one.serve((3, 0))
                if covered:
                    await here.exact(one)
                else:
                    await here.partial(one)
                assert here.stats.complete is covered
                assert (here.stats.lost, here.stats.restarts) == ({}, 0)
                await here.converges(one)


async def test_the_first_live_event_after_a_replay_needs_no_other_one() -> None:
    """One replay to begin with, and then the stream alone."""
    async with engine() as one:
        one.serve((0, 0), (0, 1))
        async with gateway(one, timing=QUICK._replace(quiet_s=60.0)) as here:
            for step in range(5):
                one.serve((1, step))
                await here.exact(one)

            assert (here.stats.replays, here.stats.gaps) == (1, 0)


# Another process


@pytest.mark.parametrize("batches", [0, 2, 8])
async def test_an_engine_that_restarts_in_place(batches: int) -> None:
    """Idle, at lower numbers, or past the old one's number already: exact, under a new key."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0), (0, 1), (0, 2), (0, 3))
        await here.exact(one)
        old = here.key
        await one.restart()
        one.serve(*((5, step) for step in range(batches)))
        await eventually(lambda: here.key != old)
        await here.exact(one)

        assert here.key == old._replace(incarnation=1)
        assert list(here.index.keys()) == [here.key]
        assert (here.stats.restarts, here.stats.complete) == (1, True)


@pytest.mark.parametrize("batches", [0, 2, 8])
async def test_an_engine_without_replay_that_restarts_in_place(batches: int) -> None:
    """The connection was lost, so nothing is believed; numbers that begin anew show another process."""
    async with engine(replay=False) as one, gateway(one) as here:
        one.serve((0, 0), (0, 1), (0, 2), (0, 3))
        await here.exact(one)
        await one.restart()
        await eventually(lambda: not here.held() and one.publisher.has_subscriber())
        one.serve(*((5, step) for step in range(batches)))
        await eventually(lambda: here.held() == one.resident)

        assert here.key.incarnation == (1 if batches else 0)
        assert here.stats.lost == {"reconnected": 1}


async def test_a_url_that_another_replica_takes_over() -> None:
    """Same host and ports, another server and process: exact under its name, and nothing names the old one."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0), (0, 1))
        await here.exact(one)
        old = here.key
        first = here.pool.server("a")
        assert first is not None
        here.pool.reconcile([])
        assert list(here.index.keys()) == []
        await one.restart()
        one.serve((5, 0), (5, 1), (5, 2))
        here.pool.reconcile(parse_servers("b=http://a:1"))
        server = here.pool.server("b")
        assert server is not None
        here.pool.identify(server, first.cards, {0: one.source})
        await here.exact(one)

        assert here.key.server_id == "b"
        assert list(here.index.keys()) == [here.key]
        assert here.events.stats(old) is None


async def test_a_replica_that_leaves_and_comes_back() -> None:
    """It is read from the start: nothing is left of where the stream stood."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0), (0, 1))
        await here.exact(one)
        server = here.pool.server("a")
        assert server is not None
        cards = server.cards
        here.pool.reconcile([])
        one.serve((1, 0))
        here.pool.reconcile(parse_servers("a=http://a:1"))
        back = here.pool.server("a")
        assert back is not None
        here.pool.identify(back, cards, {0: one.source})
        await here.exact(one)

        assert (here.stats.since, here.stats.batches) == (0, 3)


# Order and pressure


async def test_a_replay_that_is_older_than_live_removals() -> None:
    """It is on its way while the removals come: what it stores is not held, since it went meanwhile."""
    async with (
        engine() as one,
        proxied(one.publisher.replay_endpoint) as (proxy, replay),
        gateway(one, source=EventSource(one.publisher.endpoint, replay)) as here,
    ):
        one.serve((0, 0), (0, 1))
        await here.exact(one)
        proxy.delay(0.1)
        replays = here.stats.replays
        one.publisher.drop_frames(1)
        one.serve((1, 0, 0), (1, 1))
        await eventually(lambda: here.stats.replays > replays)
        one.turn_over()
        await here.exact(one)

        assert (here.stats.lost, here.stats.complete) == ({}, True)


async def test_an_idle_engine_that_is_reset() -> None:
    """Its first step afterwards tells, before what that step stores. Until then the stream says nothing."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0), (0, 1), (1, 0))
        await here.exact(one)
        assert one.cache.reset()
        one.serve((0, 0, 1))
        await here.exact(one)

        assert (here.stats.restarts, here.stats.complete) == (0, True)


async def test_an_engine_that_sleeps_and_wakes() -> None:
    """Its probes see that it sleeps, so nothing is held at once; what its first step tells of it changes nothing."""
    async with engine() as one, gateway(one) as here:
        one.serve((0, 0), (0, 1), (1, 0))
        await here.exact(one)
        server = here.pool.server("a")
        assert server is not None
        assert one.cache.reset()
        here.pool.slept(server, True)
        assert here.held() == frozenset()

        here.pool.slept(server, False)
        one.serve((0, 0, 1), (0, 0))
        await here.exact(one)
        assert (here.stats.restarts, here.stats.complete, here.key.incarnation) == (0, True, 0)


@pytest.mark.parametrize(("buffer_steps", "lost"), [(20_000, set()), (SHORT, {"unreplayable"})])
async def test_a_flood_beyond_the_high_water_mark(buffer_steps: int, lost: set[str]) -> None:
    """The publisher drops what its queue cannot hold: a gap, and exact again where replay covers it."""
    async with (
        engine(buffer_steps=buffer_steps, high_water_mark=50) as one,
        proxied(one.publisher.endpoint) as (proxy, live),
        gateway(one, source=EventSource(live, one.publisher.replay_endpoint)) as here,
    ):
        one.serve((0, 0), (0, 1))
        await here.exact(one)
        proxy.cut()
        one.say_nothing(250, size=8_000)  # 72 kB each: more than all buffers on the way
        one.turn_over()
        await proxy.heal()
        await eventually(lambda: here.caught_up(one))

        assert here.stats.lost.keys() == lost
        assert here.held() <= one.resident
        if not lost:
            await here.exact(one)
        await here.converges(one)


async def test_a_slow_consumer() -> None:
    """The loop is busy while thousands of batches come, and a replay of as many begins: exact."""
    async with engine(high_water_mark=100_000) as one, gateway(one) as here:
        one.serve((0, 0), (0, 1))
        await here.exact(one)
        one.publisher.drop_frames(1)
        one.say_nothing(1_000)
        await eventually(lambda: here.stats.gaps)
        one.say_nothing(9_000)
        one.turn_over()
        await here.exact(one)

        assert (here.stats.lost, here.stats.complete) == ({}, True)


async def test_a_replay_port_that_fails_and_then_works() -> None:
    """What came live is used without it; a prefix from before stays unknown until the port answers, then all is
    known."""
    async with engine() as one, proxied(one.publisher.replay_endpoint) as (proxy, replay):
        one.serve((0, 0, 0, 0), (1, 0))
        await proxy.refuse()
        timing = QUICK._replace(replay_timeout_s=0.1, quiet_s=60.0)
        async with gateway(one, source=EventSource(one.publisher.endpoint, replay), timing=timing) as here:
            one.serve((0, 0, 0, 0, 1))
            await eventually(lambda: here.caught_up(one))
            assert here.stats.dropped == {"orphan": 1}
            assert (here.held(), here.stats.complete) == (frozenset(), False)

            await proxy.heal()
            await here.exact(one)
            assert (here.stats.lost, here.stats.complete) == ({"read_again": 1}, True)
            replays = here.stats.replays
            one.serve((0, 0, 0, 0, 2))
            await here.exact(one)
            assert here.stats.replays == replays


# Ranks


async def test_ranks_are_separate_caches() -> None:
    """Two streams of one server: each fills its own key, and what a batch says of its rank changes nothing."""
    async with EventPublisher(rank=3) as zero, EventPublisher(rank=1) as one:
        engines = [Engine(zero), Engine(one)]
        async with gateway(engines[0]) as here:
            here.identify("a", {0: engines[0].source, 1: engines[1].source})
            engines[0].serve((0, 0))
            engines[1].serve((0, 1), (0, 2))
            keys = [replica.key for replica in here.pool.replicas]
            for key, each in zip(keys, engines):
                await eventually(lambda: here.held(key) == each.resident)  # noqa: B023
            assert [key.rank for key in keys] == [0, 1]

            await engines[1].restart()
            await eventually(lambda: here.events.stats(keys[1]) is None)
            assert here.held(keys[0]) == engines[0].resident
            here.pool.reconcile([])
            assert here.index.block_owners() == 0


async def test_scopes_recover_as_plain_prompts_do() -> None:
    """Salted and LoRA chains over a lost frame: separate, and exact."""
    async with engine() as one, gateway(one) as here:
        for scope in (CacheScope(), CacheScope("salt"), CacheScope(lora="ad", lora_id=1), CacheScope("salt", "ad", 1)):
            one.serve((0, 0), scope=scope)
            one.publisher.drop_frames(1)
            one.serve((0, 0, 1), scope=scope)
        one.serve((1, 0))
        await here.exact(one)

        assert len(here.held()) == 4 * 3 + 2
        assert here.index.owned(here.key, Tier.L0) == len(here.held())
