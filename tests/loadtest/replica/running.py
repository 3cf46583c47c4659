"""A simulated replica that takes no time, and a client for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from loadtest.replica import ReplicaOptions, SimulatedReplica, Speeds

NO_TIME = Speeds(time_scale=0.0)
MODEL = "simulated"


class Running(NamedTuple):
    replica: SimulatedReplica
    client: httpx.AsyncClient


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    """``options``: those of :class:`ReplicaOptions` that are not the default."""
    async with (
        SimulatedReplica(ReplicaOptions(**{"speeds": NO_TIME, **options})) as replica,
        httpx.AsyncClient(base_url=replica.url, timeout=60, trust_env=False) as client,
    ):
        yield Running(replica, client)


def events(body: bytes) -> list[Any]:
    """The JSON of a stream's events; it must end with ``[DONE]``."""
    *chunks, done, rest = body.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]


def chat(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 4, **fields}
