from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.edge.upstream_connection import UpstreamConnection, UpstreamError
from gateway.edge.upstream_pool import UpstreamPool
from gateway.fleet.origin import Origin
from gateway.fleet.outcome import Outcome
from tests.fakes.scripted_server import ScriptedServer, Wire, answer, closed_port, plays
from tests.fakes.waiting import eventually
from tests.gateway.edge.test_upstream_connection import REQUEST, Recorder, ask

TLS = Path(__file__).parents[2] / "data" / "tls"


async def test_the_connection_used_last_is_taken_first() -> None:
    """So that those beyond what the load needs grow old and go."""
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"hi"))) as server:
        connections = [await pool.connect(server.origin) for _ in range(3)]
        for connection in connections:
            connection.send(REQUEST, b"{}", Recorder())
            await eventually(lambda: pool.busy == 0)
        assert [pool.take_idle(server.origin) for _ in range(4)] == [*reversed(connections), None]
        pool.close()


async def test_connections_are_kept_per_origin() -> None:
    """A connection to one server never carries another's request."""
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"a"))) as one, ScriptedServer(plays(answer(b"b"))) as two:
        assert (await ask(pool, one.origin)).data == b"a"
        assert pool.take_idle(two.origin) is None
        assert (await ask(pool, two.origin)).data == b"b"
        pool.close()


async def test_idle_connections_are_dropped_before_the_server_drops_them() -> None:
    """The pool closes them by itself, and never hands out one that is too old."""
    pool = UpstreamPool(idle_timeout_s=0.05)
    async with ScriptedServer(plays(answer(b"hi"))) as server:
        await ask(pool, server.origin)
        await eventually(lambda: pool.idle == 0)
        assert pool.take_idle(server.origin) is None


async def test_a_connection_the_server_closed_is_not_handed_out() -> None:
    """It is noticed when it happens, and forgotten, though no other connection is left that would be looked after."""
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"hi"))) as server:
        connection = await pool.connect(server.origin)
        connection.send(REQUEST, b"{}", Recorder())
        await eventually(lambda: pool.busy == 0)
        del connection
        server.wires[0].close()
        await eventually(lambda: pool.idle == 0)
        gc.collect()
        kept = [c for c in gc.get_objects() if type(c) is UpstreamConnection and c.origin == server.origin]
        assert not kept
        assert pool.take_idle(server.origin) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "a" * 70, "..", "::1"])
async def test_what_cannot_be_reached_is_unreachable(host: str) -> None:
    """Refused, unknown and impossible names are the same to a caller."""
    pool = UpstreamPool()
    with pytest.raises(UpstreamError) as error:
        await pool.connect(Origin(False, host, closed_port()))
    assert error.value.outcome is Outcome.UNREACHABLE
    assert repr(pool) == "<UpstreamPool 0 busy, 0 idle>"


async def test_connecting_has_a_time_limit() -> None:
    """A server whose backlog is full does not hold a request."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        pool = UpstreamPool(connect_timeout_s=0.05)
        origin = Origin(False, "127.0.0.1", port)
        outcomes = await asyncio.gather(*(pool.connect(origin) for _ in range(5)), return_exceptions=True)
        errors = [each for each in outcomes if isinstance(each, UpstreamError)]
        assert errors
        assert {error.outcome for error in errors} == {Outcome.UNREACHABLE}
        pool.close()


async def test_an_https_origin_is_spoken_to_in_tls() -> None:
    """Requests and answers are the same as without."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    pool = UpstreamPool(tls=ssl.create_default_context(cafile=str(TLS / "certificate.pem")))
    async with ScriptedServer(plays(answer(b"hi")), tls=serving) as server:
        for _ in range(2):
            assert (await ask(pool, server.origin)).data == b"hi"
        assert server.connections == 1
        pool.close()


async def test_a_certificate_that_cannot_be_verified_is_refused() -> None:
    """Nothing is sent to who cannot prove who it is."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"hi")), tls=serving) as server:
        with pytest.raises(UpstreamError) as error:
            await pool.connect(server.origin)
        assert error.value.outcome is Outcome.UNREACHABLE
        assert not server.requests


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"", Outcome.FIRST_BYTE_TIMEOUT),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Outcome.FIRST_BYTE_TIMEOUT),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx", Outcome.CHUNK_TIMEOUT),
    ],
)
async def test_a_silent_server_is_given_up(said: bytes, outcome: Outcome) -> None:
    """Before its first byte, and within an answer, where both have a limit."""
    pool = UpstreamPool(first_byte_timeout_s=0.5, silence_timeout_s=0.5)

    async def script(wire: Wire) -> None:
        await wire.send(said)
        await wire.until_gone()

    async with ScriptedServer(script) as server:
        got = await ask(pool, server.origin)
        assert got.error is not None
        assert got.error.outcome is outcome
        await eventually(server.wires[0].gone.is_set)


async def test_a_head_that_comes_and_comes_is_no_first_byte() -> None:
    """Neither lines of it nor interim answers start the wait anew."""
    pool = UpstreamPool(first_byte_timeout_s=0.5)

    async def script(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n")
        for number in range(4):
            await swept_again(pool_sweeps())
            await wire.send(b"x-%d: 1\r\n" % number)
        await wire.until_gone()

    async def swept_again(before: int) -> None:
        await eventually(lambda: pool_sweeps() > before)

    def pool_sweeps() -> int:
        return max((connection.silent_sweeps for connection in pool._connections), default=99)

    async with ScriptedServer(script) as server:
        got = await ask(pool, server.origin)
        assert got.error is not None
        assert got.error.outcome is Outcome.FIRST_BYTE_TIMEOUT


async def test_a_first_byte_may_take_as_long_as_the_client_waits() -> None:
    """By default: a long prompt on a busy replica is no fault."""
    pool = UpstreamPool(silence_timeout_s=0.5)

    async def script(wire: Wire) -> None:
        await wire.until_gone()

    async with ScriptedServer(script) as server:
        recorder = Recorder()
        (await pool.connect(server.origin)).send(REQUEST, b"{}", recorder)
        for _ in range(50):
            pool._sweep()
        assert not recorder.over
        pool.close()


async def test_who_sends_bytes_is_heard() -> None:
    """Each origin once a round, and only while bytes come."""
    heard: list[Origin] = []
    pool = UpstreamPool(heard=heard.append)

    async def script(wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nx")
        await wire.until_gone()

    async with ScriptedServer(script) as talks, ScriptedServer(script) as also:
        recorders = [Recorder() for _ in range(3)]
        for recorder, server in zip(recorders, (talks, talks, also)):
            (await pool.connect(server.origin)).send(REQUEST, b"{}", recorder)
        await eventually(lambda: all(recorder.data for recorder in recorders))
        await eventually(lambda: sorted(heard) == sorted([talks.origin, also.origin]))
        pool._sweep()
        assert len(heard) == 2
        pool.close()


async def test_a_paused_connection_is_not_silent() -> None:
    """What a slow client does is not the server's fault."""
    pool = UpstreamPool(silence_timeout_s=0.5)

    async def script(wire: Wire) -> None:
        await wire.until_gone()

    async with ScriptedServer(script) as server:
        recorder = Recorder()
        connection = await pool.connect(server.origin)
        connection.send(REQUEST, b"{}", recorder)
        connection.pause_reading()
        for _ in range(5):
            pool._sweep()
        assert not recorder.over
        connection.abort()


async def test_closing_the_pool_ends_everything() -> None:
    """Those who wait are told."""
    pool = UpstreamPool()
    recorder = Recorder()

    async def script(wire: Wire) -> None:
        await wire.until_gone()

    async with ScriptedServer(script) as server:
        (await pool.connect(server.origin)).send(REQUEST, b"{}", recorder)
        pool.close()
        assert recorder.error is not None
        await eventually(lambda: repr(pool) == "<UpstreamPool 0 busy, 0 idle>")


async def test_a_cancelled_connect_leaves_nothing() -> None:
    """At whatever turn of the loop the cancellation comes."""
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"hi"))) as server, asyncio.TaskGroup() as tasks:
        for turns in range(8):
            connecting = tasks.create_task(pool.connect(server.origin))
            for _ in range(turns):
                await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.wait([connecting])
            if not connecting.cancelled():
                connecting.result().abort()
        await eventually(lambda: repr(pool) == "<UpstreamPool 0 busy, 0 idle>")
        await eventually(lambda: server.open_connections == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such option")
async def test_a_host_that_vanished_is_noticed_within_a_request() -> None:
    """What it was sent and never acknowledged is not sent again for a quarter of an hour."""
    pool = UpstreamPool()
    async with ScriptedServer(plays(answer(b"hi"))) as server:
        await ask(pool, server.origin)

        assert list(_patience_towards(server.port)) == [30_000]
        pool.close()


def _patience_towards(port: int) -> Iterator[int]:
    """Of each connection of this process to ``port``, in milliseconds."""
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if file.is_socket():
                with socket.socket(fileno=os.dup(int(file.name))) as one:
                    if one.family == socket.AF_INET and one.getpeername()[1] == port:
                        yield one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
