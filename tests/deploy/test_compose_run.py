"""The services of deploy/compose, run without an engine: tests/deploy/local_compose.py says how."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.deploy.compose_file import ComposeFile
from tests.deploy.local_compose import LocalCompose
from tests.deploy.own_network import run_in_own_network
from tests.fakes.waiting import eventually

TOKEN = "b8-Yw2"
PROMPT = " ".join(f"word{number}" for number in range(600))
FILE = ComposeFile.read()


class Gateway(NamedTuple):
    """One of the two, asked over HTTP."""

    client: httpx.AsyncClient
    address: str

    async def admin(self, path: str) -> Any:
        """Of the port that wants the token from the secret's file."""
        url, headers = f"http://{self.address}:9465{path}", {"authorization": f"Bearer {TOKEN}"}
        return (await self.client.get(url, headers=headers)).raise_for_status().json()

    async def complete(self, prompt: str) -> httpx.Response:
        body = {"model": "simulated", "prompt": prompt, "max_tokens": 2}
        return (await self.client.post(f"http://{self.address}:8080/v1/completions", json=body)).raise_for_status()

    async def follows(self, wanted: set[str]) -> bool:
        """Whether these are its replicas, all healthy, and the events of all are followed."""
        rows = await self.admin("/replicas")
        followed = {row["id"] for row in rows if row["healthy"] and row["events"]["state"] == "fresh"}
        return followed == wanted == {row["id"] for row in rows}


def test_it_runs(tmp_path: Path) -> None:
    """From the first health check to the last exit status; each process is stopped within the time it is given."""
    run_in_own_network(partial(run, tmp_path))


async def run(folder: Path) -> None:
    token = folder / "admin_token"
    token.write_text(TOKEN + "\n")
    async with (
        LocalCompose(FILE, folder, {"admin_token": token}) as compose,
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        await compose.up("prometheus", "valkey", "replica", "gateway-1", "gateway-2")
        gateways = [Gateway(client, compose.of(name)[0].address) for name in ("gateway-1", "gateway-2")]
        await _both_follow_every_replica(compose, gateways)
        await _both_share_one_index(compose, gateways)
        await _what_one_has_sent_the_other_finds(*gateways)
        await compose.up("load")
        compose.scale("replica", 4)
        await _both_follow_every_replica(compose, gateways)
        await _prometheus_scrapes_them_all(client, compose)
        await _both_have_served_the_load(compose)
        await _each_ends_in_time(compose)


async def _both_follow_every_replica(compose: LocalCompose, gateways: list[Gateway]) -> None:
    """Those that the name has now, and no other."""
    wanted = {f"{container.address}:8000" for container in compose.of("replica")}
    for gateway in gateways:
        await _until(partial(gateway.follows, wanted), f"{gateway.address} follows {wanted}")


async def _both_share_one_index(compose: LocalCompose, gateways: list[Gateway]) -> None:
    """Each sees both in that Valkey, under one hash secret, and every replica written there."""
    replicas = {f"{container.address}:8000" for container in compose.of("replica")}

    async def shares(gateway: Gateway) -> bool:
        index = (await gateway.admin("/status"))["index"]
        secrets = {member["secret"] for member in index["members"]}
        return len(index["members"]) == 2 and len(secrets) == 1 and index["registered"].keys() == replicas

    for gateway in gateways:
        await _until(partial(shares, gateway), f"{gateway.address} shares the index")


async def _what_one_has_sent_the_other_finds(first: Gateway, second: Gateway) -> None:
    """The same replica, for its prefix; and it did have it."""
    before = await first.complete(PROMPT)

    async def knows() -> bool:
        rows = {row["id"]: row["owned_blocks"]["l0"] for row in await second.admin("/replicas")}
        return bool(rows[before.headers["x-prefixway-replica"]] > 1000 / 16)

    await _until(knows, "the replica's events have come")
    after = await second.complete(PROMPT)
    matched = int(after.headers["x-prefixway-matched"].partition("l0=")[2])
    assert before.headers["x-prefixway-matched"].endswith("l0=0")
    assert after.headers["x-prefixway-replica"] == before.headers["x-prefixway-replica"]
    assert after.headers["x-prefixway-reason"] == "prefix"
    assert matched == after.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 1000


async def _both_have_served_the_load(compose: LocalCompose) -> None:
    """While a replica came: by their access logs, and with no error."""
    for name in ("gateway-1", "gateway-2"):
        output = compose.of(name)[0].output
        await eventually(partial(_says, output, '"route":"chat"'))
        assert re.findall(r'"status":[45]\d\d', output.read_text()) == []


async def _prometheus_scrapes_them_all(client: httpx.AsyncClient, compose: LocalCompose) -> None:
    """Both gateways by name, all replicas by their common one, through the same DNS."""
    wanted = len(compose.of("replica")) + 2

    async def all_up() -> bool:
        answer = await client.get("http://127.0.0.1:9090/api/v1/query", params={"query": "count(up == 1)"})
        result = answer.json().get("data", {}).get("result", [])
        return [row["value"][1] for row in result] == [str(wanted)]

    await _until(all_up, f"{wanted} targets are up")


async def _each_ends_in_time(compose: LocalCompose) -> None:
    for name in ("load", "gateway-1", "gateway-2", "replica", "valkey", "prometheus"):
        for container in compose.of(name):
            status = await compose.stop(container)
            assert status == 0, f"{name}: {status}\n{container.output.read_text()[-4000:]}"


def _says(output: Path, text: str) -> bool:
    return text in output.read_text()


async def _until(is_so: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 30.0) -> None:
    """Ask again and again; a process that is starting refuses connections."""
    deadline = time.monotonic() + timeout_s
    while True:
        with suppress(httpx.TransportError):
            if await is_so():
                return
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.05)
