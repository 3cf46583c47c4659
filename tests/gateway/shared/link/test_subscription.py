"""A subscription gives what is published, in order, and ends with an error as soon as its connection is dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.shared.link.links import PATIENT_S, linked


@asynccontextmanager
async def _listening(link: RedisLink, heard: list[bytes]) -> AsyncIterator[asyncio.Task[None]]:
    async def listen() -> None:
        async for payload in link.subscribe("news"):
            heard.append(payload)  # noqa: PERF401 - one by one, as they come

    task = asyncio.ensure_future(listen())
    yield task
    task.cancel()
    await asyncio.wait([task])


def _subscribers(server: RedisServer) -> int:
    ((_, count),) = server.client().pubsub_numsub("news")
    return int(count)


async def test_payloads_come_in_order(link: RedisLink, redis_server: RedisServer) -> None:
    """Bytes as they are; what was published before is not heard."""
    heard: list[bytes] = []
    await link.publish("news", b"before")
    async with _listening(link, heard):
        await eventually(lambda: _subscribers(redis_server))
        sent = [b"\x00\r\n\xff", b"", *(b"%d" % n for n in range(100))]
        for payload in sent:
            await link.publish("news", payload)
        await link.publish("other", b"x")

        await eventually(lambda: heard == sent)


async def test_leaving_it_closes_its_connection(link: RedisLink, redis_server: RedisServer) -> None:
    """However it is left."""
    async with _listening(link, []):
        await eventually(lambda: _subscribers(redis_server))
    await eventually(lambda: not _subscribers(redis_server))


async def test_silence_is_no_end(redis_server: RedisServer) -> None:
    """A ping shows now and then that somebody is there."""
    heard: list[bytes] = []
    async with linked(redis_server.url, timeout_s=0.1) as link, _listening(link, heard) as task:
        await eventually(lambda: redis_server.command_counts().get("ping", 0) >= 3)
        redis_server.client().publish("news", "at last")

        await eventually(lambda: heard == [b"at last"])
        assert not task.done()


async def test_a_broken_connection_ends_it() -> None:
    """The server dies, and says goodbye to nobody."""
    with RedisServer() as server:
        async with linked(server.url) as link, _listening(link, []) as task:
            await eventually(lambda: _subscribers(server))
            server.kill()

            with pytest.raises(RedisUnavailable):
                await asyncio.wait_for(task, PATIENT_S)


async def test_a_cut_network_ends_it(redis_server: RedisServer) -> None:
    """No FIN, no RST: the missing answer to a ping tells."""
    async with (
        TcpProxy(redis_server.port) as proxy,
        linked(f"redis://127.0.0.1:{proxy.port}", timeout_s=0.1) as link,
        _listening(link, []) as task,
    ):
        await eventually(lambda: _subscribers(redis_server))
        proxy.cut()

        with pytest.raises(RedisUnavailable, match="no answer in time"):
            await asyncio.wait_for(task, PATIENT_S)


async def test_a_channel_that_is_not_allowed_is_refused() -> None:
    """By the server's access list."""
    with RedisServer(config={"user": "reader on >open ~* resetchannels &other +@all"}) as server:
        async with linked(f"redis://reader:open@127.0.0.1:{server.port}") as link:
            with pytest.raises(RedisRefused, match="NOPERM"):
                await anext(link.subscribe("news"))
