"""The composition root: everything is built once, and two gateways can live in one process."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.app import Gateway, running_gateway
from gateway.settings import Settings, SettingsError

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
    gateway = Gateway(Settings.from_env(LOOPBACK))
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


async def test_the_admin_token_guards_the_admin_port() -> None:
    """Without it 401, with it the page."""
    async with (
        running_gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_ADMIN_TOKEN": "t0"})) as gateway,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client,
    ):
        without = await client.get("/status")
        within = await client.get("/status", headers={"authorization": "Bearer t0"})

    assert (without.status_code, within.status_code) == (401, 200)
