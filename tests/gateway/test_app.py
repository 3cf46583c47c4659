"""The composition root: everything is built once, and two gateways can live in one process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from gateway.app import Gateway, running_gateway
from gateway.asgi_server import ListenSockets, listen_socket, port_of
from gateway.setting_field import SettingsError
from gateway.settings import Settings
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.raw_client import RawClient, get, post
from tests.fakes.scripted_server import Wire
from tests.fakes.stand_in_handler import TLS
from tests.fakes.waiting import eventually

LOOPBACK = {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")}


async def test_two_gateways_in_one_process() -> None:
    """No state is shared: each has its ports, its registry, its strategy."""
    async with (
        running_gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_STRATEGY": "round_robin"})) as one,
        running_gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_STRATEGY": "least_loaded"})) as two,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        pages = [
            (await client.get(f"http://127.0.0.1:{gateway.admin.port}/status")).json()["strategy"]
            for gateway in (one, two)
        ]

    assert pages == ["round_robin", "least_loaded"]


async def test_rates_begin_as_they_are_set() -> None:
    """And are shown beside what is learned."""
    environ = {**LOOPBACK, "PREFIXWAY_RATES": '{"prefill_tokens_s": 12345}'}
    async with running_gateway(Settings.from_env(environ)) as gateway, httpx.AsyncClient(trust_env=False) as client:
        page = (await client.get(f"http://127.0.0.1:{gateway.admin.port}/status")).json()

    assert page["speeds"]["rates"]["prefill_tokens_s"] == {
        "learned": 12_340,
        "prior": 12_345,
        "samples": 0,
        "age_s": None,
    }
    assert page["settings"]["PREFIXWAY_RATES"] == "prefill_tokens_s=12345.0"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("REPLICAS", "ftp://x", "PREFIXWAY_REPLICAS: 'ftp://x': the scheme must be"),
        ("KV_EVENTS", "tcp://{hots}:5557", "PREFIXWAY_KV_EVENTS: 'tcp://{hots}:5557' is not a ZeroMQ endpoint"),
        ("TOKENIZER", "a=b,a=c", "PREFIXWAY_TOKENIZER: .*names its model twice"),
    ],
)
async def test_a_bad_value_names_its_setting(name: str, text: str, fault: str) -> None:
    """What only a room can read is checked at the start as well: which setting, and what is wrong with it."""
    with pytest.raises(SettingsError, match=fault):
        Gateway(Settings.from_env({**LOOPBACK, f"PREFIXWAY_{name}": text}))


async def test_parts_may_be_run_again() -> None:
    """The supervisor restarts what failed: each part works again after its first run ended."""
    gateway = Gateway(Settings.from_env(LOOPBACK), linger_s=0)
    for part in gateway.parts:
        for _ in range(2):
            task = asyncio.ensure_future(part.run())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done(), part
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled(), (part, task)
    gateway.stop()
    await gateway.run()


async def test_it_is_not_complete_before_it_is_known_who_is_there() -> None:
    """However long the first list takes."""
    going_on = asyncio.Event()
    async with KubernetesApi(token=None) as api:

        async def later(wire: Wire) -> None:
            await going_on.wait()
            await api.usual(wire)

        api.cues.append(later)
        finder = {"PREFIXWAY_DISCOVERY": "kubernetes:default/app=vllm", "PREFIXWAY_KUBERNETES_API": api.url}
        async with running_gateway(Settings.from_env({**LOOPBACK, **finder})) as gateway:
            complete = asyncio.ensure_future(gateway.until_complete())
            await eventually(lambda: api.requests)
            before = complete.done()
            going_on.set()
            await complete

    assert not before


async def test_the_admin_token_guards_the_admin_port() -> None:
    """Without it 401, with it the page."""
    async with (
        running_gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_ADMIN_TOKEN": "t0"})) as gateway,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client,
    ):
        without = await client.get("/status")
        within = await client.get("/status", headers={"authorization": "Bearer t0"})

    assert (without.status_code, within.status_code) == (401, 200)


@asynccontextmanager
async def one_of_several(
    listening: socket.socket, **settings: str
) -> AsyncIterator[tuple[Gateway, asyncio.Task[None]]]:
    """A gateway that is given its sockets. It is stopped at the end of the block."""
    side = [listen_socket("127.0.0.1", 0) for _ in range(2)]
    given = {f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()}
    gateway = Gateway(
        Settings.from_env({**LOOPBACK, **given}), sockets=ListenSockets(listening.dup(), *side), linger_s=0
    )
    running = asyncio.ensure_future(gateway.run())
    try:
        yield gateway, running
    finally:
        gateway.stop()
        await running


async def test_one_of_several_accepts_when_it_is_told() -> None:
    """A client that connects before waits in the socket's queue, and is served then."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with one_of_several(listening) as (gateway, _), RawClient(port_of(listening)) as client:
            await client.send(get("/livez"))
            answer = asyncio.ensure_future(client.answer())
            for _ in range(10):
                await asyncio.sleep(0)
            assert (gateway.accepts, gateway.connections, answer.done()) == (False, 0, False)
            gateway.accept()
            assert (await answer).status == 200
            assert (gateway.accepts, gateway.connections) == (True, 1)


async def test_one_that_retires_stays_ready_until_its_clients_have_left() -> None:
    """A load balancer that asks on an old connection must not think that the whole service is going."""
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        with listen_socket("127.0.0.1", 0) as listening:
            async with one_of_several(listening, replicas=replica.url) as (gateway, running):
                await eventually(gateway.is_ready)
                gateway.accept()
                async with RawClient(port_of(listening)) as client:
                    assert (await client.ask(get("/readyz"))).status == 200
                    gateway.retire()
                    assert not gateway.accepts
                    answer = await client.ask(get("/readyz"))
                    assert (answer.status, answer.values("connection")) == (200, [b"close"])
                await asyncio.wait_for(running, 20)


async def test_stopped_while_it_retires_it_waits_for_idle_clients_no_longer() -> None:
    """Nobody is left to go over to."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with one_of_several(listening, drain_s="600") as (gateway, running):
            gateway.accept()
            async with RawClient(port_of(listening)) as client:
                assert (await client.ask(get("/livez"))).status == 200
                gateway.retire()
                gateway.stop()
                await asyncio.wait_for(running, 20)
                assert await client.read_to_end() == b""


async def test_stopped_while_it_retires_it_finishes_what_runs() -> None:
    """As when its supervisor is gone: both at once."""
    with listen_socket("127.0.0.1", 0) as listening:
        async with one_of_several(listening, drain_s="600") as (gateway, running):
            gateway.accept()
            async with RawClient(port_of(listening)) as client:
                await client.send(post(b"{}")[:-1])
                await eventually(lambda: gateway.edge.upload_bytes)
                gateway.retire()
                gateway.stop()
                await asyncio.wait({running}, timeout=0.1)
                answer = await client.ask(b"}")
                assert (answer.status, b"stopping" in answer.body) == (503, False)
            await asyncio.wait_for(running, 20)


async def test_before_its_end_the_side_ports_still_answer() -> None:
    """So that what it counted can be read once more."""
    pages = []
    gateway = Gateway(Settings.from_env(LOOPBACK), linger_s=0)

    async def before_end() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            pages.append((await client.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).status_code)

    gateway.stop()
    await gateway.run(before_end)

    assert pages == [200]


async def test_while_the_last_request_runs_the_side_ports_still_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Its end would not be counted else. A person who stops the gateway does not wait for load balancers."""
    caplog.set_level("INFO")
    gateway = Gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_LINGER_S": "600", "PREFIXWAY_DRAIN_S": "300"}))
    running = asyncio.ensure_future(gateway.run())
    async with RawClient(gateway.edge.port) as client, httpx.AsyncClient(trust_env=False) as watcher:
        await client.send(post(b"{}")[:-1])
        await eventually(lambda: gateway.edge.upload_bytes)
        gateway.stop(linger=False)
        await eventually(lambda: not _is_open(gateway.edge.port))
        assert (await watcher.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).status_code == 200
        assert (await watcher.get(f"http://127.0.0.1:{gateway.metrics.port}/readyz")).status_code == 503
        assert not running.done()
        assert (await client.ask(b"}")).status == 503
    await asyncio.wait_for(running, 20)
    assert "draining: up to 300 s for what runs; 1 connections open" in caplog.text


async def test_how_long_the_end_may_take_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """To who watches the log."""
    caplog.set_level("INFO")
    gateway = Gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_LINGER_S": "0.1"}))
    gateway.stop()
    await gateway.run()
    assert "draining: serving on for 0.1 s, then up to 20 s for what runs; 0 connections open" in caplog.text


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"nonsense\r\n\r\n", "bad_request"),
        (b"GET / HTTP/1.1\r\nhost: g\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", "headers_too_large"),
    ],
)
async def test_what_is_no_request_is_counted(sent: bytes, code: str) -> None:
    """By why it was refused."""
    async with running_gateway(Settings.from_env(LOOPBACK)) as gateway, httpx.AsyncClient(trust_env=False) as watcher:
        async with RawClient(gateway.edge.port) as client:
            assert (await client.ask(sent)).status in (400, 431)
        page = (await watcher.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).text
    assert f'prefixway_unreadable_requests_total{{code="{code}"}} 1.0' in page


async def test_the_certificate_is_watched() -> None:
    """Where there is one."""
    given = {
        **LOOPBACK,
        "PREFIXWAY_TLS_CERT": str(TLS / "certificate.pem"),
        "PREFIXWAY_TLS_KEY": str(TLS / "key.pem"),
    }
    async with running_gateway(Settings.from_env(given)) as gateway, httpx.AsyncClient(trust_env=False) as watcher:
        page = (await watcher.get(f"http://127.0.0.1:{gateway.metrics.port}/metrics")).text
    assert "prefixway_tls_stale 0.0" in page
    assert "prefixway_tls_expires_seconds 4.949574202e+09" in page
