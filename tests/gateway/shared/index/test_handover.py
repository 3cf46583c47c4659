"""States that one process leaves for another."""

from __future__ import annotations

import random

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.handover import Handover
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisRefused
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer

A = ReplicaKey("m", "a")
KEYS = Keys("test")


@pytest.mark.parametrize("size", [0, 1, (256 << 10) - 1, 256 << 10, 3_000_001])
async def test_what_was_given_is_taken(link: RedisLink, size: int) -> None:
    """Whole, whatever its size."""
    handover, state = Handover(link, KEYS), random.Random(size).randbytes(size)

    await handover.give(A, state, 60)
    (stamp,) = await handover.ask([handover.stamp(A)])

    assert await handover.take(A, stamp) == state


async def test_a_newer_state_takes_the_old_ones_place(link: RedisLink) -> None:
    """Who still reads the old one gets nothing, and looks again."""
    handover = Handover(link, KEYS)
    await handover.give(A, b"old", 60)
    (old,) = await handover.ask([handover.stamp(A)])
    await handover.give(A, b"new", 60)
    (new,) = await handover.ask([handover.stamp(A)])

    assert await handover.take(A, old) is None
    assert await handover.take(A, new) == b"new"


async def test_nothing_there_is_nothing(link: RedisLink) -> None:
    """No stamp, no state."""
    handover = Handover(link, KEYS)

    assert await handover.ask([handover.stamp(A)]) == [None]
    assert await handover.take(A, b"stamp") is None


async def test_a_state_that_was_given_ends_the_wish_and_goes_after_a_while(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """Every key has its life."""
    handover, client = Handover(link, KEYS), redis_server.client()
    await handover.ask([handover.wish(A)])
    assert client.ttl(KEYS.wanted(A)) > 0

    await handover.give(A, b"state", 60)

    assert client.keys() == [KEYS.handover(A).encode()]
    assert 0 < client.ttl(KEYS.handover(A)) <= 60


async def test_a_server_without_memory_refuses(link: RedisLink, redis_server: RedisServer) -> None:
    """The caller is told."""
    client = redis_server.client()
    client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(RedisRefused, match="OOM"):
            await Handover(link, KEYS).give(A, b"x" * 2_000_000, 60)
    finally:
        client.config_set("maxmemory", "0")
