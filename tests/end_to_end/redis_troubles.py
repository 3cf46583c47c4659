"""What may happen to a Redis, each as a block: it happens at the beginning, and is over at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.end_to_end.shared_house import SharedHouse
from tests.fakes.redis_servers import RedisServer

Trouble = Callable[[SharedHouse], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def slow(house: SharedHouse) -> AsyncIterator[None]:
    """Every answer comes later than any budget."""
    house.proxy.delay(0.3)
    yield
    await house.proxy.heal()


@asynccontextmanager
async def refusing(house: SharedHouse) -> AsyncIterator[None]:
    """Connections are reset and refused."""
    await house.proxy.refuse()
    yield
    await house.proxy.heal()


@asynccontextmanager
async def cut(house: SharedHouse) -> AsyncIterator[None]:
    """The network goes, without a FIN or an RST."""
    house.proxy.cut()
    yield
    await house.proxy.heal()


@asynccontextmanager
async def frozen(house: SharedHouse) -> AsyncIterator[None]:
    """The process is stopped; connections stay open."""
    with house.redis.paused():
        yield


@asynccontextmanager
async def restarted_empty(house: SharedHouse) -> AsyncIterator[None]:
    """Killed; after a while there is an empty one."""
    house.redis.kill()
    yield
    house.redis.start()


@asynccontextmanager
async def flushed(house: SharedHouse) -> AsyncIterator[None]:
    """Somebody's FLUSHALL."""
    house.redis.client().flushall()
    yield


@asynccontextmanager
async def without_memory(house: SharedHouse) -> AsyncIterator[None]:
    """Every write that would grow it is refused."""
    client = house.redis.client()
    client.config_set("maxmemory", "1mb")
    yield
    client.config_set("maxmemory", "0")


@asynccontextmanager
async def failed_over(house: SharedHouse) -> AsyncIterator[None]:
    """It becomes the replica of another one, which has nothing, and refuses writes; then it is the primary again.

    So all its data is lost, as writes are that a primary took and its replica never got.
    """
    with RedisServer(house.redis.flavour) as other:
        client = house.redis.client()
        client.replicaof("127.0.0.1", other.port)
        yield
        client.replicaof("NO", "ONE")


TROUBLES: dict[str, Trouble] = {
    trouble.__name__: trouble
    for trouble in (slow, refusing, cut, frozen, restarted_empty, flushed, without_memory, failed_over)
}
