"""``prefixway serve --workers N``: nothing is lost that need not be, whatever happens to whom."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.redis_servers import RedisServer
from tests.fakes.waiting import eventually
from tests.running_gateway import RunningGateway, running_gateway

BODY = {"model": "simulated", "prompt": "tell me about the sea " * 20, "max_tokens": 3, "stream": True}
DONE = b"data: [DONE]\n\n"


class Load:
    """``clients`` that ask one thing after another for the length of a block; every other on new connections only."""

    def __init__(self, url: str, clients: int = 8) -> None:
        self._url = url
        self._clients = clients
        self._over = False
        self.answered = 0
        self.failures: list[str] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(self._ask(number)) for number in range(self._clients)]
        await eventually(lambda: self.answered > 2 * self._clients)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)

    async def more(self) -> None:
        """Return when there are twice as many answers more as there are clients."""
        wanted = self.answered + 2 * self._clients
        await eventually(lambda: self.answered >= wanted)

    async def _ask(self, number: int) -> None:
        limits = httpx.Limits(max_keepalive_connections=number % 2)
        async with httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=60, limits=limits) as client:
            while not self._over and len(self.failures) < 100:
                try:
                    answer = await client.post("/v1/completions", json=BODY)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                if answer.content.endswith(DONE):
                    self.answered += 1
                else:
                    self.failures.append(f"{answer.status_code} {answer.content[-200:]!r}")


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with RedisServer() as server:
        yield server.url


@contextlib.asynccontextmanager
async def workers(
    count: int, replica: SimulatedReplica, redis_url: str, **settings: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway of ``count`` workers, all of them ready."""
    running = running_gateway(
        [f"one={replica.url}"], workers=str(count), redis_url=redis_url, log_level="info", **settings
    )
    gateway = await asyncio.to_thread(running.__enter__)
    try:
        serving = f'prefixway_workers{{state="serving"}} {count}.0'
        await until(gateway, lambda: serving in gateway.metrics())
        yield gateway
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def until(gateway: RunningGateway, done: Any) -> None:
    await asyncio.to_thread(gateway.wait, done)


def states(gateway: RunningGateway) -> list[str]:
    return [worker["state"] for worker in gateway.status()["workers"]]


def pids(gateway: RunningGateway) -> list[int]:
    """Of the workers, in the order of their numbers."""
    told = sorted(gateway.status()["workers"], key=lambda worker: int(worker["worker"]))
    return [worker["pid"] for worker in told]


def total(gateway: RunningGateway, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    families = text_string_to_metric_families(gateway.metrics())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


@contextlib.asynccontextmanager
async def one_replica() -> AsyncIterator[SimulatedReplica]:
    async with SimulatedReplica(ReplicaOptions(speeds=FAST)) as replica:
        yield replica


async def ask(url: str, **fields: object) -> httpx.Response:
    """One request on a connection of its own."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        return await client.post("/v1/completions", json=BODY | fields)


async def test_a_killed_worker_is_replaced_and_costs_only_its_own_connections(redis_url: str) -> None:
    """Under load: at most what each client had open at that moment fails; no new connection is refused or forgotten."""
    async with one_replica() as replica, workers(3, replica, redis_url) as gateway:
        before = await asyncio.to_thread(pids, gateway)
        async with Load(gateway.url, clients=6) as load:
            os.kill(before[1], signal.SIGKILL)
            await until(gateway, lambda: total(gateway, "prefixway_worker_deaths_total") == 1)
            failed = len(load.failures)
            await load.more()
            await until(gateway, lambda: states(gateway) == ["serving"] * 3)
            await load.more()
        after = await asyncio.to_thread(pids, gateway)

    assert len(load.failures) == failed <= 6
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]


async def test_what_a_killed_worker_had_open_is_counted(redis_url: str) -> None:
    """Streams of the others end in full; those of the dead one break off, and that many are told."""
    async with one_replica() as replica, workers(2, replica, redis_url) as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = [asyncio.ensure_future(ask(gateway.url)) for _ in range(10)]

        def connections() -> dict[int, int]:
            return {worker["pid"]: worker["connections"] for worker in gateway.status()["workers"]}

        await until(gateway, lambda: sum(connections().values()) == 10 == replica.faults.stalled)
        open_ = await asyncio.to_thread(connections)
        victim = min(open_, key=lambda pid: open_[pid] or 100)
        os.kill(victim, signal.SIGKILL)
        await until(gateway, lambda: total(gateway, "prefixway_worker_deaths_total") == 1)
        replica.faults.clear()
        answers = await asyncio.gather(*asking, return_exceptions=True)
        lost = await asyncio.to_thread(total, gateway, "prefixway_worker_connections_lost_total")

    broken = [answer for answer in answers if isinstance(answer, httpx.HTTPError)]
    assert len(broken) == lost == open_[victim] > 0
    whole = [answer for answer in answers if isinstance(answer, httpx.Response)]
    assert all(answer.content.endswith(DONE) for answer in whole)


async def test_sighup_replaces_every_worker_and_no_request_fails(redis_url: str) -> None:
    """Under load, on kept connections and new ones."""
    async with one_replica() as replica, workers(2, replica, redis_url, drain_s="3") as gateway:
        before = await asyncio.to_thread(pids, gateway)
        async with Load(gateway.url, clients=12) as load:
            gateway.process.send_signal(signal.SIGHUP)
            await until(gateway, lambda: total(gateway, "prefixway_worker_replacements_total") == 2)
            await until(gateway, lambda: states(gateway) == ["serving"] * 2)
            await load.more()
        after = await asyncio.to_thread(pids, gateway)
        deaths = await asyncio.to_thread(total, gateway, "prefixway_worker_deaths_total")

    assert load.failures == []
    assert not set(before) & set(after)
    assert deaths == 0


async def test_sigterm_to_one_worker_replaces_it_as_planned(redis_url: str) -> None:
    """As an operator may do it: no request fails, and nothing died."""
    async with one_replica() as replica, workers(2, replica, redis_url, drain_s="3") as gateway:
        before = await asyncio.to_thread(pids, gateway)
        async with Load(gateway.url) as load:
            os.kill(before[0], signal.SIGTERM)
            await until(gateway, lambda: total(gateway, "prefixway_worker_replacements_total") == 1)
            await load.more()
        await until(gateway, lambda: states(gateway) == ["serving"] * 2)
        after = await asyncio.to_thread(pids, gateway)

    assert load.failures == []
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.parametrize(("number", "linger_s"), [(signal.SIGTERM, "0"), (signal.SIGINT, "600")])
async def test_a_stop_lets_all_streams_finish(redis_url: str, number: signal.Signals, linger_s: str) -> None:
    """Streams of both workers run on to their last byte; then the process ends with 0. Ctrl-C is a person's, who does
    not wait for load balancers.
    """
    async with one_replica() as replica, workers(2, replica, redis_url, linger_s=linger_s) as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = [asyncio.ensure_future(ask(gateway.url)) for _ in range(12)]
        await eventually(lambda: replica.faults.stalled == 12)
        gateway.process.send_signal(number)
        await until(gateway, lambda: set(states(gateway)) == {"leaving"})  # one that has none is gone at once
        replica.faults.clear()
        answers = await asyncio.gather(*asking)
        status = await asyncio.to_thread(gateway.process.wait, 30)

    assert all(answer.content.endswith(DONE) for answer in answers)
    assert status == 0
    assert "Traceback" not in gateway_log(gateway)


async def test_a_stop_under_load_breaks_nothing_off(redis_url: str) -> None:
    """Every request that was begun is answered; afterwards connections are refused, never taken and dropped."""
    async with (
        one_replica() as replica,
        workers(2, replica, redis_url, linger_s="1") as gateway,  # a client may just be sending on an idle connection
        Load(gateway.url) as load,
    ):
        gateway.process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(gateway.process.wait, 60)

    assert status == 0
    assert [failure for failure in load.failures if "ConnectError" not in failure] == []


async def test_a_stop_waits_for_the_drain_time_and_no_longer(redis_url: str) -> None:
    """A stream that does not end is broken off with an error event, by its own worker; the status is 0."""
    async with one_replica() as replica, workers(2, replica, redis_url, drain_s="1") as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = asyncio.ensure_future(ask(gateway.url))
        await eventually(lambda: replica.faults.stalled == 1)
        gateway.process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(gateway.process.wait, 30)
        answer = await asking

    assert status == 0
    assert b'"error"' in answer.content.rpartition(b"data: ")[2]


async def test_a_second_signal_ends_it_at_once(redis_url: str) -> None:
    """Whatever still runs is broken off, and the status says that it was."""
    async with one_replica() as replica, workers(2, replica, redis_url) as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = asyncio.ensure_future(ask(gateway.url))
        await eventually(lambda: replica.faults.stalled == 1)
        gateway.process.send_signal(signal.SIGTERM)
        await until(gateway, lambda: states(gateway) == ["leaving"] * 2 or states(gateway) == ["leaving"])
        gateway.process.send_signal(signal.SIGTERM)
        status = await asyncio.to_thread(gateway.process.wait, 10)
        (broken,) = await asyncio.gather(asking, return_exceptions=True)

    assert status == 1
    assert isinstance(broken, httpx.HTTPError)


async def test_sums_over_a_death_and_a_planned_replacement(redis_url: str) -> None:
    """Requests, tokens and the series of the replica add up to what was sent, and no series is there twice."""
    async with one_replica() as replica, workers(2, replica, redis_url, drain_s="1") as gateway:

        def requests() -> float:
            return total(gateway, "prefixway_requests_total", outcome="ok")

        async def send(count: int) -> None:
            for answer in await asyncio.gather(*(ask(gateway.url) for _ in range(count))):
                assert answer.content.endswith(DONE)

        await send(20)
        await until(gateway, lambda: requests() == 20)
        os.kill((await asyncio.to_thread(pids, gateway))[0], signal.SIGKILL)
        await until(gateway, lambda: total(gateway, "prefixway_worker_deaths_total") == 1)
        kept = await asyncio.to_thread(requests)
        await until(gateway, lambda: states(gateway) == ["serving"] * 2)
        await send(20)
        gateway.process.send_signal(signal.SIGHUP)
        await until(gateway, lambda: total(gateway, "prefixway_worker_replacements_total") == 2)
        after = await asyncio.to_thread(requests)
        duration = await asyncio.to_thread(total, gateway, "prefixway_request_seconds_count")
        decisions = await asyncio.to_thread(total, gateway, "prefixway_decisions_total", replica="one")
        up = await asyncio.to_thread(total, gateway, "prefixway_replica_up", replica="one")
        text = await asyncio.to_thread(gateway.metrics)

    assert kept == 20
    assert (after, duration, decisions, up) == (40, 40, 40, 1)
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))


async def test_both_side_ports_speak_for_all(redis_url: str) -> None:
    """/status has every worker with its own page; /readyz is there; counts of a replica are those of all workers."""
    async with one_replica() as replica, workers(3, replica, redis_url) as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = [asyncio.ensure_future(ask(gateway.url)) for _ in range(6)]
        await eventually(lambda: replica.faults.stalled == 6)
        await until(gateway, lambda: gateway.replicas()["one"]["inflight"] == 6)
        status = await asyncio.to_thread(gateway.status)
        inflight = await asyncio.to_thread(total, gateway, "prefixway_replica_inflight")
        answered = await asyncio.to_thread(total, gateway, "prefixway_workers_answered")
        async with httpx.AsyncClient(trust_env=False) as client:
            ready = await client.get(f"{gateway.metrics_url}/readyz")
        replica.faults.clear()
        await asyncio.gather(*asking)

    assert (inflight, answered, ready.status_code) == (6, 3, 200)
    assert [worker["worker"] for worker in status["workers"]] == [1, 2, 3]
    assert sum(worker["connections"] for worker in status["workers"]) == 6
    assert all(worker["status"]["strategy"] == "kv_aware" for worker in status["workers"])
    assert status["supervisor"]["workers"]["serving"] == 3
    assert (status["strategy"], status["ready"]) == ("kv_aware", True)
    assert status["replicas"][0]["inflight"] == 6


async def test_an_order_reaches_every_worker(redis_url: str) -> None:
    """A strategy and a drain, from the command line, by way of the supervisor; one order each, not one a worker."""
    async with one_replica() as replica, workers(2, replica, redis_url, admin_token="t0") as gateway:
        environ = {**os.environ, "PREFIXWAY_ADMIN_TOKEN": "t0"}

        def command(*words: str) -> str:
            call = [sys.executable, "-m", "gateway", *words, "--admin", gateway.admin_url]
            return subprocess.run(call, env=environ, capture_output=True, text=True, timeout=60, check=True).stdout

        def pages() -> list[dict[str, Any]]:
            headers = {"authorization": "Bearer t0"}
            status = httpx.get(f"{gateway.admin_url}/status", headers=headers, trust_env=False).json()
            return [status, *(worker["status"] for worker in status["workers"])]

        told = await asyncio.to_thread(command, "strategy", "set", "round_robin")
        await until(gateway, lambda: {page["strategy"] for page in pages()} == {"round_robin"})
        await asyncio.to_thread(command, "drain", "one")
        await until(gateway, lambda: all(page["replicas"][0]["draining"] for page in pages()))
        orders = (await asyncio.to_thread(pages))[0]["orders"]
        await asyncio.to_thread(command, "undrain", "one")
        await asyncio.to_thread(command, "strategy", "clear")
        await until(gateway, lambda: {page["strategy"] for page in pages()} == {"kv_aware"})

    assert "round_robin" in told
    assert orders["version"] == 2


async def test_the_end_of_the_supervisor_is_the_end_of_its_workers(redis_url: str) -> None:
    """Killed, it cannot tell them: they let their streams finish, take no new ones, and end."""
    async with one_replica() as replica, workers(2, replica, redis_url) as gateway:
        replica.faults.always = Fault(stall_after_chunks=1)
        asking = asyncio.ensure_future(ask(gateway.url))
        await eventually(lambda: replica.faults.stalled == 1)
        left = await asyncio.to_thread(pids, gateway)
        gateway.process.kill()
        host, _, port = gateway.url.removeprefix("http://").partition(":")
        await eventually(lambda: not listens(host, int(port)))
        replica.faults.clear()
        answer = await asking
        await eventually(lambda: not any(is_running(pid) for pid in left))

    assert answer.content.endswith(DONE)


def test_a_configuration_that_no_worker_can_use_is_said_once(redis_url: str) -> None:
    """The exit status and the sentence are the worker's; there is no second try."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PREFIXWAY_")}
    ports = {f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")}
    settings = {"PREFIXWAY_REPLICAS": "http://", "PREFIXWAY_REDIS_URL": redis_url}
    ended = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--workers", "4"],
        env={**environ, **ports, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr.count("PREFIXWAY_REPLICAS: 'http://': a replica's URL needs a host") == 1
    assert "Traceback" not in ended.stderr


def gateway_log(gateway: RunningGateway) -> str:
    return gateway.log.read_text() if gateway.log.exists() else ""


def listens(host: str, port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def is_running(pid: int) -> bool:
    """Not a zombie either, as one is whose parent does not ask for it."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
