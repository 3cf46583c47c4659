"""Thousands of requests by clients that leave whenever they like, at replicas that break and die: nothing is left.

``STRESS=10000 STRESS_SEED=1 pytest tests/end_to_end/test_stress.py -s`` for more of them, and figures.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from gateway.app import Gateway, running_gateway
from gateway.edge.admission import Ticket
from gateway.edge.answer import Answer
from gateway.edge.client_connection import ClientConnection
from gateway.edge.client_request import ClientRequest
from gateway.edge.delivery import Delivery
from gateway.edge.relay import Relay
from gateway.edge.stream_tap import StreamTap
from gateway.edge.upstream_connection import UpstreamConnection
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.attempt import Attempt
from gateway.router.exchange import Exchange
from gateway.router.prepared import Prepared
from gateway.settings import Settings
from loadtest.replica.model_folder import DEFAULT_FOLDER
from tests.end_to_end.at_rest import at_rest
from tests.end_to_end.crowd import Crowd
from tests.fakes.moody_replica import MoodyReplica
from tests.fakes.waiting import eventually

REQUESTS = int(os.environ.get("STRESS", "1500"))
SEED = int(os.environ.get("STRESS_SEED", "1"))
OF_ONE_REQUEST = (
    Answer,
    Attempt,
    ClientConnection,
    ClientRequest,
    Delivery,
    Exchange,
    InferenceRequest,
    Prepared,
    Relay,
    StreamTap,
    Ticket,
    UpstreamConnection,
)


def alive() -> Counter[str]:
    """Objects that live no longer than a request or a connection."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in OF_ONE_REQUEST)


def held() -> tuple[int, int]:
    """File descriptors and tasks."""
    return len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks())


async def least_held() -> tuple[int, int]:
    """Of some moments, since probes come and go."""
    moments = []
    for _ in range(50):
        moments.append(held())
        await asyncio.sleep(0.01)
    files, tasks = zip(*moments)
    return min(files), min(tasks)


class Trouble:
    """Now and then a replica dies, or comes back."""

    def __init__(self, replicas: list[MoodyReplica], seed: int) -> None:
        self._replicas = replicas
        self._rng = Random(seed)
        self._at_work = False
        self.deaths = 0

    async def __call__(self) -> None:
        if self._at_work or self._rng.random() > 0.03:
            return
        self._at_work = True
        dead = [replica for replica in self._replicas if not replica.alive]
        if dead and self._rng.random() < 0.8:
            await self._rng.choice(dead).revive()
        else:
            self._rng.choice(self._replicas).kill()
            self.deaths += 1
        self._at_work = False


async def all_die(gateway: Gateway, replicas: list[MoodyReplica]) -> None:
    """So that no connection is kept."""
    for replica in replicas:
        replica.kill()
    await at_rest(gateway)


async def all_live(gateway: Gateway, replicas: list[MoodyReplica]) -> None:
    for replica in replicas:
        await replica.revive()
    await eventually(lambda: all(server.healthy for server in gateway.pool.servers))


def settings(replicas: list[MoodyReplica], strategy: str) -> Settings:
    return Settings.from_env(
        {
            "PREFIXWAY_REPLICAS": ",".join(f"r{number}={each.url}" for number, each in enumerate(replicas)),
            "PREFIXWAY_STRATEGY": strategy,
            "PREFIXWAY_TOKENIZER": str(DEFAULT_FOLDER),
            "PREFIXWAY_PROBE_INTERVAL_S": "0.05",
            "PREFIXWAY_MAX_INFLIGHT": "24",
            "PREFIXWAY_MAX_QUEUE": "24",
            **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
        }
    )


@pytest.mark.parametrize("strategy", ["kv_aware", "round_robin"])
async def test_nothing_is_left(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No attempt, task, file or object; every request has one end; and the second time as the first."""
    done: set[str] = set()
    before = alive()  # of other tests' modules
    async with AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(MoodyReplica(SEED + number)) for number in range(3)]
        gateway = await stack.enter_async_context(running_gateway(settings(replicas, strategy)))
        await all_live(gateway, replicas)
        await all_die(gateway, replicas)
        files, tasks = await least_held()
        sizes, seen, deaths = [], Counter[str](), 0
        for round_ in range(2):
            await all_live(gateway, replicas)
            trouble = Trouble(replicas, SEED + round_)
            crowd = Crowd(gateway.edge.port, SEED * 2 + round_, REQUESTS // 4, trouble)
            await crowd.come_and_go()
            done |= set(crowd.done)
            seen += crowd.seen
            deaths += trouble.deaths

            await all_die(gateway, replicas)
            await eventually(lambda: gateway.connections == 0)
            await eventually(lambda: held()[0] <= files)
            await eventually(lambda: held()[1] <= tasks)
            await eventually(lambda: not alive() - before)
            for replica in replicas:
                replica.forget()
            sizes.append(len(gc.get_objects()))
        await all_live(gateway, replicas)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    ends = Counter(line["request_id"] for line in lines)
    with capsys.disabled():
        if "STRESS" in os.environ:
            print(f"\n{strategy}: {len(lines)} ends, {deaths} deaths, objects {sizes}, {dict(seen)}")
            print(Counter(line["outcome"] for line in lines), Counter(line["attempts"] for line in lines))

    assert done <= ends.keys()
    assert set(ends.values()) == {1}
    assert deaths > 0
    assert sizes[1] < sizes[0] + 2000
