"""Succession where the chosen ones cannot see the replica, and where what was left behind is another engine's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from gateway.fleet.event_source import EventSource
from gateway.kv.block_bytes import members
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.shared.index.knowledge import COMPLETE
from gateway.shared.link.redis_errors import RedisRefused
from loadtest.replica.publisher import EventPublisher
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.shared.index.succession_house import KEYS, A, Engine, House, turns, until
from tests.gateway.shared.index.test_succession import IDS, SHORT

NOWHERE = EventSource("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")


@pytest.fixture
async def house(redis_server: RedisServer) -> AsyncIterator[House]:
    async with EventPublisher(buffer_steps=SHORT) as publisher, AsyncExitStack() as stack:
        yield House(redis_server, Engine(publisher), stack)


async def test_two_that_are_not_chosen_do_not_hand_the_lock_to_and_fro(house: House) -> None:
    """The chosen ones came later and cannot reach the replica: one of those that can goes on writing."""
    able = [await house.join(id_) for id_ in IDS[2:]]
    await until(lambda: all(p.knowledge == COMPLETE for p in able), *able)
    house.engine.serve(10)
    await until(lambda: all(p.is_true() for p in able) and any(p.writes for p in able), *able)
    reached, house.engine = house.engine, Elsewhere(house.engine, NOWHERE)
    blocked = [await house.join(id_) for id_ in IDS[:2]]
    house.engine = reached
    await turns(30, *able, *blocked)
    assert sum(p.writer.stats.epochs.total() for p in able) <= 2
    assert any(p.writes for p in able)


def written(house: House) -> set[bytes]:
    """What readers see of the replica."""
    entry = house.client.hget(KEYS.registry(A.namespace), f"r:{A.replica_id}")
    assert isinstance(entry, bytes)
    held = house.client.smembers(KEYS.blocks(A, int(entry.split(b" ")[0]), Tier.L0))
    return {member for member in held if isinstance(member, bytes)} - {b"@"}


def truth(house: House) -> set[bytes]:
    return set(members(house.engine.truth(b"secret")))


class Elsewhere(Engine):
    """The same, as it looks by another way."""

    def __init__(self, engine: Engine, source: EventSource) -> None:
        super().__init__(engine.publisher)
        self.cache = engine.cache
        self._source = source

    @property
    def source(self) -> EventSource:
        return self._source


async def test_what_was_left_behind_is_not_written_before_it_is_verified(house: House) -> None:
    """The replay does not reach back to it any more, and is slow to say so: what was held then may be gone."""
    old = await house.join("old")
    await until(lambda: old.knowledge == COMPLETE, old)
    house.engine.serve(20)
    await until(lambda: old.is_true() and house.in_redis(), old)
    await house.leave(old)
    house.client.rename(KEYS.handover(A), "elsewhere")
    house.engine.serve(40)
    source = house.engine.source
    assert source.replay_endpoint is not None
    async with TcpProxy(int(source.replay_endpoint.rpartition(":")[2])) as proxy:
        house.engine = Elsewhere(house.engine, EventSource(source.endpoint, f"tcp://127.0.0.1:{proxy.port}"))
        new = await house.join("new")
        await until(lambda: new.writes, new)
        known = written(house)
        assert known <= truth(house)

        proxy.cut()
        house.client.rename("elsewhere", KEYS.handover(A))
        await until(lambda: new.stats.state is FeedState.SUSPECT, new)
        await turns(20, new)
        assert written(house) == known

        await proxy.heal()
        await until(lambda: new.stats.lost["unreplayable"] and new.writes, new)
        assert written(house) <= truth(house)


async def test_a_stop_gives_the_lock_back_though_nothing_can_be_left_behind(house: House) -> None:
    """Redis is full: what only this process knows is lost, and the next one writes at once all the same."""
    old = await house.join("old")
    await until(lambda: old.knowledge == COMPLETE, old)
    house.engine.serve(2)
    await until(lambda: old.is_true() and house.in_redis(), old)
    assert house.client.exists(KEYS.writer(A))

    house.client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(RedisRefused, match="OOM"):
            await old.succession.finish()
    finally:
        house.client.config_set("maxmemory", "0")

    assert not house.client.exists(KEYS.writer(A), KEYS.handover(A))
