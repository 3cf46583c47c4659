"""What one gateway tells, another finds, as long as Redis answers."""

from __future__ import annotations

import asyncio

import pytest

from gateway.fleet.response_home import Home
from gateway.router.response_homes import Directory, ResponseHomes
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.responses.response_directory import ResponseDirectory
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.examples import Clock
from tests.gateway.shared.link.links import linked

KEYS = Keys()
A = Home("a")


def keys_in(server: RedisServer) -> int:
    """How much lies there."""
    return int(server.client().dbsize())


async def test_another_gateway_finds_it(link: RedisLink, redis_server: RedisServer) -> None:
    """Under the same id, for a day; another id is not known."""
    one, two = ResponseDirectory(link, KEYS, clock=Clock()), ResponseDirectory(link, KEYS, clock=Clock())
    async with running(one.run()):
        one.tell("resp_1", Home("10.0.0.7:8000"))
        one.tell("resp_2", Home("rëplica", "my\nnïck"))
        await eventually(lambda: keys_in(redis_server) == 2)

    assert [await two.find(id_) for id_ in ("resp_1", "resp_2", "resp_3")] == [
        Home("10.0.0.7:8000"),
        Home("rëplica", "my\nnïck"),
        None,
    ]
    client = redis_server.client()
    keys = client.keys()
    assert {client.ttl(key) > 86_000 for key in keys} == {True}


@pytest.mark.parametrize("response_id", ["", "a b\r\nc", "}{", "\0", "x" * 100_000, "ü", "\ud800"])
async def test_any_id_is_one_key(link: RedisLink, redis_server: RedisServer, response_id: str) -> None:
    """Short, and without what the client wrote."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    async with running(directory.run()):
        directory.tell(response_id, A)
        await eventually(lambda: keys_in(redis_server) == 1)

    assert await directory.find(response_id) == A
    (key,) = redis_server.client().keys()
    assert isinstance(key, bytes)
    assert key.startswith(b"pw:{fleet}:response=")
    assert len(key) < 60


async def test_many_at_once_are_all_written(link: RedisLink, redis_server: RedisServer) -> None:
    """In several pieces; what is told before the start, too."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    for number in range(1_200):
        directory.tell(f"resp_{number}", A)
    async with running(directory.run()):
        await eventually(lambda: keys_in(redis_server) == 1_200)


async def test_what_is_told_is_bounded(
    link: RedisLink, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """So many an hour: where replicas keep nothing, Redis must not fill with what nobody asks for. The log says it."""
    clock = Clock()
    directory = ResponseDirectory(link, KEYS, clock=clock, most_an_hour=3)
    async with running(directory.run()):
        for number in range(9):
            directory.tell(f"resp_{number}", A)
        await eventually(lambda: keys_in(redis_server) == 3)
        clock.now += 3_600
        directory.tell("resp_8", A)
        await eventually(lambda: keys_in(redis_server) == 4)

    assert [await directory.find(f"resp_{number}") for number in (0, 2, 3, 8)] == [A, A, None, A]
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("more than 3 responses within an hour")


async def test_a_home_with_halves_of_characters_does_not_end_the_writing(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """A file can name a server so."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    async with running(directory.run()):
        directory.tell("resp_1", Home("\ud800"))
        directory.tell("resp_2", A)
        await eventually(lambda: keys_in(redis_server) == 2)

    assert await directory.find("resp_2") == A


async def test_other_fleets_do_not_see_it(link: RedisLink, redis_server: RedisServer) -> None:
    """Their keys begin with something else."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    async with running(directory.run()):
        directory.tell("resp_1", A)
        await eventually(lambda: keys_in(redis_server) == 1)

    assert await ResponseDirectory(link, Keys("other"), clock=Clock()).find("resp_1") is None


async def test_without_redis_nothing_is_known_and_nothing_lost(redis_server: RedisServer) -> None:
    """Nobody waits longer than the budget. What was told meanwhile is written when Redis is back, the newest first to
    stay.
    """
    async with TcpProxy(redis_server.port) as proxy, linked(f"redis://127.0.0.1:{proxy.port}", budget_s=0.05) as link:
        directory = ResponseDirectory(link, KEYS, clock=Clock(), most_untold=2, pause_s=0.01)
        await proxy.refuse()
        async with running(directory.run()):
            assert await directory.find("resp_1") is None
            for number in range(3):
                directory.tell(f"resp_{number}", A)
            await asyncio.sleep(0)
            await proxy.heal()
            await eventually(lambda: keys_in(redis_server) == 2)


async def test_a_value_that_is_none_is_unknown(link: RedisLink, redis_server: RedisServer) -> None:
    """Whatever lies there."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    async with running(directory.run()):
        directory.tell("resp_1", A)
        await eventually(lambda: keys_in(redis_server) == 1)
    client = redis_server.client()
    (key,) = client.keys()
    client.delete(key)
    client.sadd(key, "a")

    assert await directory.find("resp_1") is None


async def test_homes_are_shared(link: RedisLink, redis_server: RedisServer) -> None:
    """What one gateway's router learned, another's knows after it asked once."""
    directory = ResponseDirectory(link, KEYS, clock=Clock())
    asked: Directory = ResponseDirectory(link, KEYS, clock=Clock())
    one, two = (ResponseHomes(each, clock=Clock()) for each in (directory, asked))
    async with running(directory.run()):
        one.learned("resp_1", A)
        await eventually(lambda: keys_in(redis_server) == 1)

    assert (two.known("resp_1"), await two.find("resp_1"), two.known("resp_1")) == (None, A, A)
