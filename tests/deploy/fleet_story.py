"""A fleet, what it goes through, and a real Prometheus that watches: three gateways on one Valkey, three replicas.

Two of the gateways follow each replica's events, the third looks into Valkey, so that everything is told by one of
them, by two and by three. Replicas are found as a Kubernetes API lists them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx

from loadtest.closed_loop import ClosedLoop, Sample
from loadtest.replica import ReplicaOptions, Speeds
from loadtest.replica.faults import Fault
from loadtest.replica.kv_events import BlockStored
from loadtest.workload import Workload
from tests.deploy.prometheus_house import Prometheus
from tests.end_to_end.process_house import Process, ProcessHouse, process_house
from tests.end_to_end.shared_house import MODEL
from tests.fakes.kubernetes_api import KubernetesApi
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_server import closed_port

GATEWAYS = 3
JOB = "prefixway"
MOST_AT_REPLICAS, MOST_WAITING = 24, 2  # requests of a gateway's
#: The demo's replicas, ten times as fast.
_NONSENSE = BlockStored((b"?" * 32,), b"!" * 32, tuple(range(16)), 16)  # builds on nothing
_SLOWDOWN, _MANY_TOKENS = 200, 100  # an answer takes 40 s
_REPLICA = ReplicaOptions(capacity_blocks=1600, speeds=Speeds(prefill_tokens_per_s=40_000, step_s=0.002))


class FleetStory:
    """``sent`` and ``samples`` are all that clients asked, and what they got; ``refused`` is what must be counted."""

    def __init__(
        self, house: ProcessHouse, pods: KubernetesApi, gateways: list[Process], prometheus: Prometheus
    ) -> None:
        self.prometheus = prometheus
        self.gateways = gateways
        self.replicas = house.shared.replicas
        self.samples: list[Sample] = []
        self.extra = 0  # requests beside those
        self.refused: Counter[str] = Counter()
        self._house = house
        self._pods = pods

    @property
    def sent(self) -> int:
        """Requests that gateways could read."""
        return len(self.samples) + self.extra

    def id_of(self, name: str) -> str:
        """What gateways call a replica."""
        return self._pods.server_id(name)

    async def acquaint(self) -> None:
        """Return when every gateway hears of what the others send where."""
        await self._until_each(f"prefixway_load_peers {GATEWAYS - 1}.0")

    async def play(self, workload: Workload, seed: int) -> None:
        """Conversations to random gateways, to their end."""
        load = ClosedLoop([gateway.running.url for gateway in self.gateways], MODEL, seed=seed)
        try:
            await load.run(workload.generate(self._house.words, seed))
        finally:
            self.samples += load.samples

    async def settle(self) -> None:
        """Return when Prometheus has seen the end of all that was asked."""
        await self.prometheus.until_it_is("sum(prefixway_requests_total)", self.sent)
        await self.prometheus.until_it_is("sum(prefixway_admission_inflight)", 0)

    async def all_told(self) -> None:
        """Return when every event has been seen and all is well, where replicas tell all that they store."""
        for name, replica in self.replicas.items():
            held = len(replica.cache.resident_prefixes())
            blocks = f'min(prefixway_replica_l0_blocks{{replica="{self.id_of(name)}"}} > 0)'
            await self.prometheus.until_it_is(blocks, held)
        await self.prometheus.until_it_is("min(prefixway_replica_trust)", 1)

    @asynccontextmanager
    async def under_way(self, count: int) -> AsyncIterator[None]:
        """So many requests at replicas that take their time, which Prometheus has seen, for the length of the block."""
        for replica in self.replicas.values():
            replica.scheduler.slowdown = _SLOWDOWN
        texts = [" ".join(self._house.words[number : number + 300]) for number in range(count)]
        asking = [
            asyncio.ensure_future(self._complete(number % GATEWAYS, text, max_tokens=_MANY_TOKENS))
            for number, text in enumerate(texts)
        ]
        await self.prometheus.until_it_is("min(sum by (instance) (prefixway_replica_running))", count)
        yield
        for replica in self.replicas.values():
            replica.scheduler.slowdown = 1
        await asyncio.gather(*asking)
        await self.settle()

    # What goes wrong

    async def untold(self) -> None:
        """A replica keeps what it does not tell of: new prompts are unconfirmed, then more is there than predicted."""
        replica = self.replicas["b"]
        await self._hold_back("a", "c")
        replica.silent.mutes_events = True
        for expected in ("prompts_unconfirmed", "cached_tokens_under_predicted"):
            for number in range(GATEWAYS):  # one of them does not follow it
                await self._complete(number, " ".join(self._house.words[number : number + 400]))
            await self._until_any(f"prefixway_{expected}_total{{")
        replica.silent.mutes_events = False
        await self._hold_back()

    async def unlucky(self) -> None:
        """Under load: answers that fail, streams cut, Redis away, events lost, an engine restarted, one killed."""
        a, b, c = (self.replicas[name] for name in "abc")
        b.faults.add(Fault(status=503, retry_after_s=0), 2)
        b.faults.add(Fault(die_after_chunks=1), 2)
        for times in (1, 2):  # a series that begins with the first shows no increase before the second
            await self._send_nonsense(times)
        redis = self._house.shared.redis.client()
        redis.config_set("maxmemory", "1mb")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.play(Workload(dialogues=24, turns=4, think_s=(0.05, 0.3)), seed=2))
            await self._until_any('prefixway_redis_refused_total{code="OOM"}')
            redis.config_set("maxmemory", "0")
            await self._house.shared.proxy.refuse()
            await self._until_each("prefixway_redis_up 0.0")
            await self._house.shared.proxy.heal()
            a.publisher.drop_frames(1)
            for _ in range(2):  # the one that is lost, and the one that shows it
                a.publisher.publish([_NONSENSE])
            await self.prometheus.until_it_is("max(prefixway_kv_event_gaps_total)", 1)
            await a.restart()
            await c.stop()
        await self._until_each("prefixway_redis_up 1.0")

    async def unwanted(self) -> None:
        """What is refused, what waits in vain, who leaves; prompts and bytes that cannot be read."""
        url = self.gateways[0].running.url
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            for _ in range(2):  # as above
                await self._show_image(client)
                async with RawClient(int(url.rpartition(":")[2])) as raw:
                    await raw.ask(b"GARBAGE\r\n\r\n")
                await self.settle()
                await self.prometheus.until("prefixway_unreadable_requests_total", bool)
            await client.post("/v1/completions", json={"model": "nobody's", "prompt": "x"})
            await client.post("/v1/nowhere", json={})
            self._count(model_not_found=1, route_not_found=1)
        await self._overrun()

    async def found_wrong(self) -> None:
        """A replica caches nothing any more, and its metrics say so."""
        self.replicas["b"].silent.caches = False
        await self.prometheus.until_it_is('count(prefixway_findings{name="prefix_caching_off"})', GATEWAYS)

    async def remove(self, name: str) -> None:
        """Its pod is gone. Return when no gateway's page names it."""
        id_ = self.id_of(name)
        self._pods.delete(name)
        await self._until_each_page(lambda page: id_ not in page)

    async def _overrun(self) -> None:
        """More requests than may be at replicas and wait, all at once, at one gateway."""
        for name in "ab":
            self.replicas[name].faults.always = Fault(stall_before_head=True)
        asking = [self._start(f"stalled {number}") for number in range(MOST_AT_REPLICAS)]
        await self._until_gauge("admission_inflight", MOST_AT_REPLICAS)
        leaves, waits_too_long = self._start("leaves"), self._start("waits too long")
        await self._until_gauge("admission_waiting", 2)
        await self._complete(0, "one too many")
        await self._leave(leaves)
        await waits_too_long
        self.refused.update(rate_limit_exceeded=1, queue_timeout=1)
        asking.append(self._start("waits"))
        await self._until_gauge("admission_waiting", 1)
        await self._leave(asking.pop(0))
        for name in "ab":
            self.replicas[name].faults.clear()
        await asyncio.gather(*asking)

    def _start(self, prompt: str) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._complete(0, prompt))

    @staticmethod
    async def _leave(asking: asyncio.Future[None]) -> None:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    async def _show_image(self, client: httpx.AsyncClient) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
        self.extra += 1
        await client.post("/v1/chat/completions", json={"model": MODEL, "messages": messages, "max_tokens": 1})

    def _count(self, **refused: int) -> None:
        self.refused.update(refused)
        self.extra += sum(refused.values())

    async def _complete(self, gateway: int, prompt: str, *, max_tokens: int = 1) -> None:
        self.extra += 1
        body = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens}
        await self.gateways[gateway].client.post("/v1/completions", json=body)

    async def _hold_back(self, *names: str) -> None:
        """These pods are not ready, all others are. Return when every gateway knows."""
        for name in self.replicas:
            self._pods.set_ready(name, name not in names)
        for gateway in self.gateways:
            await gateway.until(partial(self._holds_back, gateway, len(names)))

    def _holds_back(self, gateway: Process, count: int) -> bool:
        return [row["held_back"] for row in gateway.running.status()["replicas"]].count(True) == count

    async def _send_nonsense(self, times: int) -> None:
        """Events that are of no use. ``times``: how many there were in all, then."""
        self.replicas["a"].publisher.publish([_NONSENSE])
        dropped = "min(prefixway_kv_events_dropped_total)"
        await self.prometheus.until_it_is(dropped, times)

    async def _until_each(self, line: str) -> None:
        await self._until_each_page(lambda page: line in page)

    async def _until_each_page(self, is_so: Callable[[str], bool]) -> None:
        """Of metrics, of each gateway."""
        for gateway in self.gateways:
            await gateway.until(partial(self._shows, gateway, is_so))

    async def _until_any(self, line: str) -> None:
        await self.gateways[0].until(lambda: any(line in gateway.running.metrics() for gateway in self.gateways))

    async def _until_gauge(self, name: str, value: int) -> None:
        """Of the first gateway."""
        line = f"\nprefixway_{name} {value}.0\n"
        await self.gateways[0].until(partial(self._shows, self.gateways[0], lambda page: line in page))

    @staticmethod
    def _shows(gateway: Process, is_so: Callable[[str], bool]) -> bool:
        return is_so(gateway.running.metrics())


@asynccontextmanager
async def fleet_story() -> AsyncIterator[FleetStory]:
    """Everything runs, and every gateway hears of the others. Prometheus may be about to begin."""
    ports = [closed_port() for _ in range(GATEWAYS)]
    async with (
        Prometheus({JOB: [f"127.0.0.1:{port}" for port in ports]}) as prometheus,
        KubernetesApi(token=None) as pods,
        process_house(_REPLICA) as house,
    ):
        for name, replica in house.shared.replicas.items():
            pods.add(name, replica.http.host, port=replica.http.port)
        settings: dict[str, Any] = {
            "replicas": "",
            "discovery": "kubernetes:default/app=vllm",
            "kubernetes_api": pods.url,
            "discovery_interval_s": "0.2",
            "redis_url": f"redis://127.0.0.1:{house.shared.proxy.port}",
            "index_budget_ms": "500",  # an idle gateway would go on taking for late what was so once, on a busy machine
            "shadow": "round_robin",
            "max_inflight": str(MOST_AT_REPLICAS),
            "max_queue": str(MOST_WAITING),
            "queue_timeout_s": "4",  # in which one more comes, and one leaves
        }
        starting = (house.start(metrics_listen=f"127.0.0.1:{port}", **settings) for port in ports)
        gateways = list(await asyncio.gather(*starting))
        story = FleetStory(house, pods, gateways, prometheus)
        await story.acquaint()
        yield story
