"""The server that sentinels name is found, and found again after a failover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.shared.link.redis_errors import RedisUnavailable
from tests.fakes.redis_servers import FLAVOURS, RedisServer, SentinelSetup
from tests.fakes.scripted_server import closed_port
from tests.fakes.tcp_proxy import TcpProxy
from tests.gateway.shared.link.links import echo, linked, until_asked, until_run


@pytest.fixture(scope="module")
def setup() -> Iterator[SentinelSetup]:
    with SentinelSetup() as setup:
        yield setup


async def test_the_server_is_the_one_that_a_sentinel_names(setup: SentinelSetup) -> None:
    """With the database of the URL."""
    async with linked(f"{setup.url}/2") as link:
        assert await link.run(("SET", "k", "v")) == b"OK"
        assert await link.ask(echo()) == b"hello"

    assert setup.primary.client(db=2).get("k") == b"v"


async def test_sentinels_that_do_not_answer_are_passed_over(setup: SentinelSetup) -> None:
    """Some are gone, some silent, some know nothing; one is enough."""
    with RedisServer(sentinel=["sentinel deny-scripts-reconfig yes"]) as ignorant:
        async with TcpProxy(setup.sentinel.port) as silent:
            silent.cut()
            ports = [closed_port(), silent.port, ignorant.port, setup.sentinel.port]
            hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
            async with linked(f"redis+sentinel://{hosts}/{setup.master}", timeout_s=2.0) as link:
                assert await until_run(link, ("SET", "k", 1)) == b"OK"


async def test_a_name_that_no_sentinel_knows(setup: SentinelSetup) -> None:
    """Is told with the name."""
    async with linked(setup.url.replace(setup.master, "another")) as link:
        with pytest.raises(RedisUnavailable, match="there is no master named 'another'"):
            await link.run(("PING",))


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_after_a_failover_the_new_server_is_used(flavour: str) -> None:
    """The old one died; for commands, lookups and subscriptions."""
    with SentinelSetup(flavour) as setup:
        async with linked(setup.url, timeout_s=2.0) as link:
            assert await link.run(("SET", "k", "old")) == b"OK"
            setup.failover()

            assert await until_run(link, ("SET", "k", "new")) == b"OK"
            assert await until_asked(link, echo("asked")) == b"asked"
            assert setup.replica.client().get("k") == b"new"


async def test_a_server_that_became_a_replica_is_left() -> None:
    """It lives on and answers reads; what is written shows that it is not the one any more."""
    with SentinelSetup() as setup:
        async with linked(setup.url, timeout_s=2.0) as link:
            await link.run_all([("SET", "k", "old"), ("GET", "k")])
            setup.hand_over()

            assert await until_run(link, ("SET", "k", "new")) == b"OK"
            assert setup.replica.client().get("k") == b"new"
