"""Whether a gateway has let go of everything, as its own status page tells."""

from __future__ import annotations

import asyncio

import httpx

from gateway.app import Gateway


async def busy(gateway: Gateway) -> dict[str, int]:
    """What it still works for: all of it is 0 at rest."""
    async with httpx.AsyncClient(trust_env=False) as client:
        page = (await client.get(f"http://127.0.0.1:{gateway.admin.port}/status")).raise_for_status().json()
    admission = {name: page["admission"][name] for name in ("inflight", "inflight_tokens", "waiting", "waiting_tokens")}
    edge = {name: page["edge"][name] for name in ("under_way", "upstream_busy")}
    return admission | edge | {f"at {replica['id']}": replica.get("inflight", 0) for replica in page["replicas"]}


async def at_rest(gateway: Gateway, timeout_s: float = 20.0) -> None:
    """Return as soon as it is; fail with what is left."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while any((left := await busy(gateway)).values()):
        assert min(left.values()) >= 0, left
        assert asyncio.get_running_loop().time() < deadline, left
        await asyncio.sleep(0.01)
