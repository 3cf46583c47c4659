"""Processes that accept on one socket each get their share, and nobody loses a connection."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter
from functools import partial

import pytest

from gateway.acceptor import Acceptor
from gateway.asgi_server import listen_socket, port_of
from tests.fakes.waiting import eventually


class Named(asyncio.Protocol):
    """Says its name to whoever connects."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._name)
        transport.close()


async def names(port: int, count: int) -> Counter[bytes]:
    """Who answers ``count`` clients that come all at once."""

    async def one() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        name = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return name

    return Counter(await asyncio.gather(*(one() for _ in range(count))))


async def test_a_burst_is_shared() -> None:
    """Neither gets nearly all, as whoever wakes first would."""
    with listen_socket("127.0.0.1", 0) as listening:
        shared = [listening.dup(), listening.dup()]
        acceptors = [Acceptor(sock, partial(Named, name)) for sock, name in zip(shared, (b"a", b"b"))]
        told = await names(port_of(listening), 100)
        for acceptor in acceptors:
            acceptor.close()

    assert set(told) == {b"a", b"b"}
    assert min(told.values()) > 10


async def test_closed_it_leaves_later_ones_to_others() -> None:
    """While it rests, and while it waits; those it took keep their protocols. Closing twice is closing."""
    with listen_socket("127.0.0.1", 0) as listening:
        shared = [listening.dup(), listening.dup()]
        first, second = (Acceptor(sock, partial(Named, name)) for sock, name in zip(shared, (b"a", b"b")))
        await names(port_of(listening), 10)
        first.close()
        first.close()
        await first.wait_closed()
        assert await names(port_of(listening), 10) == {b"b": 10}
        Acceptor(listening.dup(), partial(Named, b"c")).close()  # before it took any
        assert await names(port_of(listening), 10) == {b"b": 10}
        second.close()
        await second.wait_closed()


async def test_those_that_wait_when_it_closes_are_served() -> None:
    """Nobody else may be there to do so."""
    with listen_socket("127.0.0.1", 0) as listening:
        waiting = [socket.create_connection(listening.getsockname()) for _ in range(20)]
        acceptor = Acceptor(listening, partial(Named, b"a"))
        acceptor.close()
        await acceptor.wait_closed()
        for client in waiting:
            client.setblocking(False)
            assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 10), 20) == b"a"
            client.close()
        assert listening.fileno() == -1


async def test_clients_that_left_again_cost_nothing() -> None:
    """They reset the connection before it was accepted; the next one is served."""
    with listen_socket("127.0.0.1", 0) as listening:
        for _ in range(5):
            client = socket.create_connection(listening.getsockname())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
        acceptor = Acceptor(listening, partial(Named, b"a"))
        assert await names(port_of(listening), 1) == {b"a": 1}
        acceptor.close()


async def test_without_descriptors_it_rests_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """It does not spin, and takes what waits when there are some again."""
    with listen_socket("127.0.0.1", 0) as listening:
        client = socket.create_connection(listening.getsockname())
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        try:
            acceptor = Acceptor(listening, partial(Named, b"a"))
            await eventually(lambda: "no connection can be accepted" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(client, 10) == b"a"
        acceptor.close()
        client.close()
