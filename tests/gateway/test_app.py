"""The composition root: everything is built once, and two gateways can live in one process."""

from __future__ import annotations

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


async def test_a_bad_replica_names_its_setting() -> None:
    """The error says which setting and what is wrong with it."""
    with pytest.raises(SettingsError, match="PREFIXWAY_REPLICAS: 'ftp://x': the scheme must be"):
        Gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_REPLICAS": "ftp://x"}))


async def test_the_admin_token_guards_the_admin_port() -> None:
    """Without it 401, with it the page."""
    async with (
        running_gateway(Settings.from_env({**LOOPBACK, "PREFIXWAY_ADMIN_TOKEN": "t0"})) as gateway,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client,
    ):
        without = await client.get("/status")
        within = await client.get("/status", headers={"authorization": "Bearer t0"})

    assert (without.status_code, within.status_code) == (401, 200)
