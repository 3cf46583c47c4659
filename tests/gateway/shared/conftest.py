"""Servers for the tests of this room: one of each flavour for the whole run, emptied between tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
import uvloop

from gateway.shared.link.redis_link import RedisLink
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.gateway.shared.link.links import linked

#: What lies directly on the network is tested on both event loops.
_ON_BOTH_LOOPS = ("test_redis_client.py", "test_redis_clients.py", "test_redis_link.py", "test_subscription.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Which event loops a test runs on."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    return loops | ({"uvloop": uvloop.new_event_loop} if item.path.name in _ON_BOTH_LOOPS else {})


@pytest.fixture(scope="session", params=FLAVOURS)
def running_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with RedisServer(request.param) as server:
        yield server


@pytest.fixture
def redis_server(running_server: RedisServer) -> RedisServer:
    """An empty server that knows no scripts."""
    client = running_server.client()
    client.flushall()
    client.script_flush()
    client.config_resetstat()
    return running_server


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    """Generous with time, so that a busy machine breaks no test."""
    async with linked(redis_server.url) as link:
        yield link


@pytest.fixture
async def other_link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    """Another process's, to the same server."""
    async with linked(redis_server.url) as link:
        yield link
