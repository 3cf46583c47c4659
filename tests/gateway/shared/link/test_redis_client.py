"""An exchange ends in its time, and never gets the answer to another one."""

from __future__ import annotations

import asyncio

import pytest

from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_client import RedisClient
from gateway.shared.link.redis_clients import client_for
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from tests.fakes.redis_servers import RedisServer
from tests.fakes.scripted_server import closed_port
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually


def _client(port: int, timeout_s: float = 20.0, connected: list[None] | None = None) -> RedisClient:
    made = [] if connected is None else connected
    return client_for(RedisTarget.parse(f"redis://127.0.0.1:{port}"), timeout_s, lambda: made.append(None))


async def test_replies_are_as_redis_sends_them(redis_server: RedisServer) -> None:
    """Bytes, numbers, nothing, lists; never what a client library makes of them."""
    client = _client(redis_server.port)

    replies = await client.pipeline(
        [
            ("SET", b"\x00\r\n", b"\xff"),
            ("GET", b"\x00\r\n"),
            ("GET", "none"),
            ("SADD", "s", 1, 2.5, "drei"),
            ("HSET", "h", "field", "value"),
            ("HGETALL", "h"),
            ("INCR", "h"),
            ("EXISTS", "s"),
        ]
    )
    await client.close()

    assert replies[:6] == [b"OK", b"\xff", None, 3, 1, [b"field", b"value"]]
    assert isinstance(replies[6], RedisRefused)
    assert replies[6].code == "WRONGTYPE"
    assert replies[7] == 1


async def test_connections_are_kept(redis_server: RedisServer) -> None:
    """One after the other takes one connection."""
    connected: list[None] = []
    client = _client(redis_server.port, connected=connected)

    for _ in range(10):
        await client.execute(("PING",))
    await client.close()

    assert len(connected) == 1


async def test_every_exchange_ends_where_nothing_answers(redis_server: RedisServer) -> None:
    """While connecting, while logging in, on an old connection, and with more to send than a socket takes."""
    async with TcpProxy(redis_server.port) as proxy:
        client = _client(proxy.port, timeout_s=0.1)
        proxy.cut()
        async with asyncio.timeout(20):
            for _ in range(2):
                with pytest.raises(RedisUnavailable, match="no answer in time"):
                    await client.execute(("PING",))
            with pytest.raises(RedisUnavailable, match="no answer in time"):
                await client.pipeline([("SET", "k", bytes(1 << 20))] * 16)
            with pytest.raises(RedisUnavailable, match="no answer in time"):
                await client.dedicated()
            await client.close()


async def test_a_refused_connection_is_unavailable() -> None:
    """At once."""
    client = _client(closed_port())

    with pytest.raises(RedisUnavailable, match="Error 111 connecting to"):
        await client.execute(("PING",))


async def test_an_exchange_that_was_given_up_does_not_disturb_the_next(redis_server: RedisServer) -> None:
    """Its reply may still come: so its connection is not used again."""
    async with TcpProxy(redis_server.port) as proxy:
        client = _client(proxy.port)
        await client.execute(("PING",))
        proxy.cut()
        exchange = asyncio.ensure_future(client.execute(("ECHO", "old")))
        await asyncio.sleep(0)
        exchange.cancel()
        with pytest.raises(asyncio.CancelledError):
            await exchange
        await proxy.heal()

        assert [await client.execute(("ECHO", str(n))) for n in range(5)] == [b"%d" % n for n in range(5)]
        await client.close()


async def test_many_at_once_get_each_its_own_reply(redis_server: RedisServer) -> None:
    """Also while some are given up, at any moment."""
    async with TcpProxy(redis_server.port) as proxy:
        client = _client(proxy.port, timeout_s=5.0)
        proxy.delay(0.002)

        async def echoed(number: int) -> bool:
            try:
                async with asyncio.timeout(0.0005 * (number % 20)):
                    return bool(await client.execute(("ECHO", str(number))) == b"%d" % number)
            except TimeoutError:
                return True

        for first in range(0, 200, 50):
            assert all(await asyncio.gather(*map(echoed, range(first, first + 50))))
        await client.close()


async def test_a_connection_that_the_server_closed_is_replaced(redis_server: RedisServer) -> None:
    """Servers and what lies between close idle connections; nobody has to notice."""
    connected: list[None] = []
    client = _client(redis_server.port, connected=connected)
    await client.execute(("PING",))
    redis_server.client().client_kill_filter(_type="normal", skipme=True)
    await eventually(lambda: len(redis_server.client().client_list()) < 100)

    async def until_it_answers() -> object:
        async with asyncio.timeout(20):
            while True:
                try:
                    return await client.execute(("PING",))
                except RedisUnavailable:  # the end had not arrived yet
                    await asyncio.sleep(0.01)

    assert await until_it_answers() == b"PONG"
    assert len(connected) == 2
    await client.close()


async def test_a_read_only_server_is_left() -> None:
    """It was the primary before a failover: a new connection, by name or address, may reach the new one."""
    with RedisServer() as old, RedisServer() as new:
        async with TcpProxy(old.port) as proxy:
            connected: list[None] = []
            client = _client(proxy.port, connected=connected)
            await client.execute(("SET", "k", 1))
            old.client().replicaof("127.0.0.1", new.port)
            with pytest.raises(RedisUnavailable, match="READONLY"):
                await client.execute(("EVAL", "return redis.call('SET', KEYS[1], 2)", 1, "k"))
            with pytest.raises(RedisUnavailable, match="READONLY"):
                await client.execute(("SET", "k", 2))

            assert len(connected) == 2
            await client.close()
