"""Several gateways, or gateways and indexers, on one real Redis behind a proxy, with simulated replicas."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import httpx

from gateway.app import Gateway, running_gateway
from gateway.fleet.replica_key import ReplicaKey
from gateway.index_service import IndexService, running_index_service
from gateway.kv.block_bytes import members
from gateway.kv.tiers import Tier
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.settings import Settings
from gateway.shared.link.keys import SCHEMA, Keys
from gateway.together import Together
from loadtest.replica import Fault, ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually

MODEL = "simulated"
_SENTINEL = b"@"
_LINGER_S = 0.3  # of one that ends while people talk: who just chose it may still be sending


class Conversations:
    """Requests to random gateways until stopped; each goes on with one of a few conversations. Bounded."""

    def __init__(self, clients: Sequence[httpx.AsyncClient], words: Sequence[str], *, people: int = 4) -> None:
        self.answers: list[httpx.Response] = []
        self.errors: list[str] = []
        self._clients = clients
        self._words = words
        self._people = people
        self._stopped = False

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Conversations]:
        """People talk inside the block; at its end they finish what they ask."""
        async with asyncio.TaskGroup() as tasks:
            for person in range(self._people):
                tasks.create_task(self._talk(Random(person)))
            try:
                yield self
            finally:
                self._stopped = True

    async def _talk(self, rng: Random) -> None:
        for number in itertools.count():
            text = f"{' '.join(rng.choices(self._words, k=60))} {number}"
            for _ in range(6):
                if self._stopped or len(self.answers) > 5_000:
                    return
                text += " " + " ".join(rng.choices(self._words, k=30))
                await self._ask(rng.choice(self._clients), text)

    async def _ask(self, client: httpx.AsyncClient, text: str) -> None:
        body = {"model": MODEL, "prompt": text, "max_tokens": 4}
        try:
            answer = await client.post("/v1/completions", json=body)
        except httpx.HTTPError as error:
            self.errors.append(repr(error))
        else:
            self.answers.append(answer)
            if answer.status_code != 200:
                self.errors.append(answer.text)

    def reasons(self, since: int = 0) -> str:
        """All reasons of answers, in a row."""
        return " ".join(answer.headers["x-prefixway-reason"] for answer in self.answers[since:])


class SharedHouse:
    """``gateways`` and ``indexers`` in the order they were asked for; ``clients`` one for each gateway.

    ``url``: of a Redis that is more than one server, in place of the proxy's; ``client`` looks into that.
    """

    def __init__(
        self,
        redis: RedisServer,
        proxy: TcpProxy,
        replicas: Mapping[str, SimulatedReplica],
        stack: AsyncExitStack,
        *,
        url: str = "",
        client: Callable[[], Any] | None = None,
    ) -> None:
        self.redis = redis
        self.proxy = proxy
        self.replicas = replicas
        self.gateways: list[Gateway] = []
        self.indexers: list[IndexService] = []
        self.clients: list[httpx.AsyncClient] = []
        self._stack = stack
        self._url = url or f"redis://127.0.0.1:{proxy.port}"
        self._client = client or redis.client

    def settings(self, **settings: str) -> Settings:
        """Those of a process of this house; names without their prefix, in lower case."""
        return Settings.from_env(
            {
                "PREFIXWAY_REPLICAS": ",".join(f"{id_}={replica.url}" for id_, replica in self.replicas.items()),
                "PREFIXWAY_REDIS_URL": self._url,
                "PREFIXWAY_INDEX_BUDGET_MS": "50",  # everything here shares one event loop
                "PREFIXWAY_REDIS_TIMEOUT_S": "0.5",
                "PREFIXWAY_PROBE_INTERVAL_S": "0.1",
                "PREFIXWAY_ACCESS_LOG": "false",
                "PREFIXWAY_BACKGROUND_CHECKS": "false",
                **{f"PREFIXWAY_{port}LISTEN": "127.0.0.1:0" for port in ("", "METRICS_", "ADMIN_")},
                **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
            }
        )

    async def add_gateway(
        self, stack: AsyncExitStack | None = None, schema: int = SCHEMA, /, **settings: str
    ) -> Gateway:
        """One more, once it knows its replicas. ``stack``: ends it before the house does."""
        linger_s = 0.0 if stack is None else _LINGER_S
        stack = stack or self._stack
        running = running_gateway(self.settings(**settings), linger_s=linger_s, schema=schema)
        gateway = await stack.enter_async_context(running)
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60, limits=limits)
        await self._stack.enter_async_context(client)
        await gateway.until_complete()
        self.clients.append(client)
        self.gateways.append(gateway)
        return gateway

    async def add_indexer(self, stack: AsyncExitStack | None = None, **settings: str) -> IndexService:
        stack = stack or self._stack
        indexer = await stack.enter_async_context(running_index_service(self.settings(**settings)))
        self.indexers.append(indexer)
        return indexer

    def conversations(self, *, people: int = 4) -> Conversations:
        words = next(iter(self.replicas.values())).folder.words
        return Conversations(self.clients, words, people=people)

    async def complete(self, number: int, prompt: str) -> httpx.Response:
        """One completion through a gateway."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 2}
        return await self.clients[number].post("/v1/completions", json=body)

    @asynccontextmanager
    async def request_under_way(self, number: int, prompt: str) -> AsyncIterator[None]:
        """A request through a gateway that waits at its replica until the block ends."""
        for replica in self.replicas.values():
            replica.faults.always = Fault(stall_before_head=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.complete(number, prompt))
            try:
                await eventually(lambda: any(replica.faults.stalled for replica in self.replicas.values()))
                yield
            finally:
                for replica in self.replicas.values():
                    replica.faults.clear()

    # What Redis holds, against what the replicas hold

    def is_true(self, secret: bytes, keys: Keys | None = None) -> str:
        """Empty if Redis holds exactly the replicas' caches; else what is wrong."""
        for id_ in self.replicas:
            if wrong := self._difference(id_, secret, keys or Keys()):
                return wrong
        return ""

    def _difference(self, id_: str, secret: bytes, keys: Keys) -> str:
        client, key = self._client(), ReplicaKey(MODEL, id_)
        entry = client.hget(keys.registry(MODEL), f"r:{id_}")
        if not isinstance(entry, bytes):
            return f"{id_} is not registered"
        held = set(client.smembers(keys.blocks(key, int(entry.split(b" ")[0]), Tier.L0)))
        truth = set(members(self.truth(id_, secret))) | {_SENTINEL}
        if held == truth:
            return ""
        return f"{id_}: {len(held - truth)} ghosts, {len(truth - held)} of {len(truth)} missing"

    def truth(self, id_: str, secret: bytes) -> list[int]:
        """Own hashes of the blocks in a replica's cache."""
        return held_hashes(self.replicas[id_], secret)


def held_hashes(replica: SimulatedReplica, secret: bytes) -> list[int]:
    """Own hashes of the blocks in its cache."""
    size = replica.options.block_size
    return [
        extend_chain(chain_root(secret, MODEL, prefix.lora, prefix.cache_salt, size), pack_tokens(prefix.tokens), size)[
            -1
        ]
        for prefix in replica.cache.resident_prefixes().values()
    ]


def peer_inflight(gateway: Gateway) -> int:
    """Requests of others that a gateway knows to be under way."""
    load = together(gateway).peer_load
    assert load is not None
    return load.stats.peer_inflight


def together(process: Gateway | IndexService) -> Together:
    """What a process shares, as a test looks into it."""
    fellowship = process.together if isinstance(process, IndexService) else process.fellowship
    assert isinstance(fellowship, Together)
    return fellowship


@asynccontextmanager
async def shared_house(
    gateways: Sequence[Mapping[str, str]] = ({}, {}),
    indexers: Sequence[Mapping[str, str]] = (),
    *,
    ids: Sequence[str] = ("a", "b", "c"),
    options: ReplicaOptions | None = None,
    flavour: str = "valkey-9",
) -> AsyncIterator[SharedHouse]:
    """Start it. One mapping of settings for each process."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(flavour))
        proxy = await stack.enter_async_context(TcpProxy(redis.port))
        replicas = {
            id_: await stack.enter_async_context(SimulatedReplica(options or ReplicaOptions(speeds=FAST)))
            for id_ in ids
        }
        house = SharedHouse(redis, proxy, replicas, stack)
        for settings in indexers:
            await house.add_indexer(None, **settings)
        for settings in gateways:
            await house.add_gateway(None, **settings)
        yield house
