"""Gateways and indexers as processes of their own, on one real Redis, with simulated replicas and a load on them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from random import Random

import httpx

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.knowledge import UNSURE
from gateway.shared.link.keys import Keys
from gateway.shared.processes.member_record import MemberRecord, replica_number
from loadtest.replica import ReplicaOptions
from tests.end_to_end.shared_house import MODEL, SharedHouse, shared_house
from tests.running_gateway import RunningGateway, running_gateway

SECRET = "a-secret-of-the-fleet"
_PEOPLE = 6
_MOST_REQUESTS = 20_000


class Process:
    """A gateway or an indexer, and who asks it."""

    def __init__(self, running: RunningGateway, client: httpx.AsyncClient) -> None:
        self.running = running
        self.client = client

    async def until(self, done: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Wait without holding the loop, where replicas and clients live."""
        await asyncio.to_thread(self.running.wait, done, timeout_s)

    def writes(self) -> list[str]:
        """The replicas whose entries it writes."""
        written: list[str] = self.running.status()["index"]["writes"]
        return written


class Traffic:
    """Prompts that nobody sent before, to all gateways ``in_service``, so that replicas evict all the time. Bounded.

    Whoever loses a request with a gateway that was killed asks another one, as clients do. ``pause_s``: of each person
    between two requests.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.in_service: list[Process] = []
        self.killed: list[Process] = []
        self.pause_s = 0.0
        self.answered = 0
        self.failures: list[str] = []
        self._words = words
        self._stopped = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Traffic]:
        """People ask inside the block; at its end they finish what they ask."""
        async with asyncio.TaskGroup() as tasks:
            for person in range(_PEOPLE):
                tasks.create_task(self._talk(Random(person)))
            try:
                yield self
            finally:
                self._stopped = True

    async def _talk(self, rng: Random) -> None:
        for number in itertools.count():
            text = f"{' '.join(rng.choices(self._words, k=150))} {number}"
            for _ in range(3):
                if self._stopped or self.answered > _MOST_REQUESTS:
                    return
                text += " " + " ".join(rng.choices(self._words, k=50))
                await self._ask(rng, {"model": MODEL, "prompt": text, "max_tokens": 4})
                await asyncio.sleep(self.pause_s)

    async def _ask(self, rng: Random, body: dict[str, object]) -> None:
        process = rng.choice(self.in_service)
        try:
            answer = await process.client.post("/v1/completions", json=body)
        except httpx.HTTPError as error:
            if process in self.killed:
                await self._ask(rng, body)
            else:
                self.failures.append(repr(error))
            return
        self.answered += 1
        if answer.status_code != 200:
            self.failures.append(f"{answer.status_code} {answer.text}")


class ProcessHouse:
    """``shared`` has Redis and the replicas; ``traffic`` is whatever comes to the gateways."""

    def __init__(self, shared: SharedHouse, stack: AsyncExitStack) -> None:
        self.shared = shared
        self.words = next(iter(shared.replicas.values())).folder.words
        self.traffic = Traffic(self.words)
        self._stack = stack
        self._redis = shared.redis.client()

    async def start(self, command: str = "serve", **settings: str) -> Process:
        """One more process, once it is ready, and can tokenize if it serves."""
        replicas = [f"{id_}={replica.url}" for id_, replica in self.shared.replicas.items()]
        given = {
            "redis_url": self.shared.redis.url,
            "hash_secret": SECRET,
            "index_budget_ms": "50",  # two cores do everything
            "linger_s": "1",  # who has just chosen one that leaves is still served
            "log_level": "info",
            "access_log": "false",
        } | settings
        block = ExitStack()
        self._stack.push_async_callback(asyncio.to_thread, block.close)
        starting = running_gateway(replicas, ready=True, command=command, **given)
        running = await asyncio.to_thread(block.enter_context, starting)
        self._stack.callback(running.process.kill)  # nobody looks at how it ends then
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(base_url=running.url, trust_env=False, timeout=60, limits=limits)
        process = Process(running, await self._stack.enter_async_context(client))
        await process.until(lambda: self._is_acquainted(running))
        return process

    async def join(self, command: str) -> Process:
        """One more that knows all that the others do. Gateways among them are in service then."""
        process = await self.start(command)
        await process.until(lambda: self._knows_most(process))
        if process.running.url:
            self.traffic.in_service.append(process)
        return process

    async def leave(self, process: Process) -> None:
        """A planned stop: nobody sends it anything any more, and it finishes what it has."""
        if process in self.traffic.in_service:
            self.traffic.in_service.remove(process)
        status = await asyncio.to_thread(process.running.stop)
        assert status == 0, process.running.log.read_text()

    async def kill(self, process: Process) -> None:
        """SIGKILL, with requests under way."""
        if process in self.traffic.in_service:
            self.traffic.in_service.remove(process)
            self.traffic.killed.append(process)
        await asyncio.to_thread(process.running.kill)

    def published(self) -> int:
        """Batches of events, of the replica that published fewest."""
        return min(replica.publisher.next_sequence for replica in self.shared.replicas.values())

    def is_true(self) -> str:
        """Empty if Redis holds exactly the replicas' caches; else what is wrong."""
        return self.shared.is_true(SECRET.encode())

    def _is_acquainted(self, running: RunningGateway) -> bool:
        status = running.status()
        healthy = [replica["id"] for replica in status["replicas"] if replica["healthy"]]
        return len(healthy) == len(self.shared.replicas) and bool(status["models"] or not running.url)

    def _knows_most(self, process: Process) -> bool:
        """Whether no other process has told the fleet that it knows more of any replica."""
        told: dict[bytes, bytes] = self._redis.hgetall(Keys().fleet("records"))  # type: ignore[assignment]
        records = {id_.decode(): MemberRecord.decode(record).replicas for id_, record in told.items()}
        mine = records.pop(process.running.status()["index"]["process"], {})
        numbers = [replica_number(ReplicaKey(MODEL, id_)) for id_ in self.shared.replicas]
        most = {number: max((other.get(number, 0) for other in records.values()), default=0) for number in numbers}
        return all(mine.get(number, 0) >= max(most[number], UNSURE + 1) for number in numbers)


@asynccontextmanager
async def process_house(options: ReplicaOptions) -> AsyncIterator[ProcessHouse]:
    """Redis and three replicas, without anybody."""
    async with shared_house([], options=options) as shared, AsyncExitStack() as stack:
        yield ProcessHouse(shared, stack)
