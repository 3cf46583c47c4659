"""Processes on one Redis share index, secret, orders and load; what each does without it, and what people are told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from gateway.fleet.event_source import EventSource
from gateway.kv.feed_stats import FeedStats
from gateway.kv.routed import Routed
from gateway.kv.trust import FeedState
from gateway.prompt.blocks import chain_root, extend_chain, pack_tokens
from gateway.settings import Settings
from gateway.shared.index.registry import Details
from gateway.shared.orders.order import STRATEGY, Order
from gateway.together import Kind, Together
from loadtest.replica.block_cache import BlockCache
from loadtest.replica.publisher import EventPublisher
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.examples import MODEL, a_pool, a_router

BLOCK = 16
PROMPT = list(range(10 * BLOCK + 1))


class Process:
    """One, with a replica ``a`` that publishes events and another one, ``b``, that does not."""

    def __init__(self, url: str, source: EventSource | None, kind: Kind, settings: dict[str, str]) -> None:
        self.settings = Settings.from_env(
            {
                "PREFIXWAY_REDIS_URL": url,
                "PREFIXWAY_REDIS_TIMEOUT_S": "0.5",
                "PREFIXWAY_INDEX_BUDGET_MS": "200",  # many processes share this event loop
                **{f"PREFIXWAY_{name.upper()}": value for name, value in settings.items()},
            }
        )
        self.pool, self.routed = a_pool(), Routed()
        self.together = Together(
            self.settings,
            self.pool,
            self.routed,
            kind=kind,
            clock=time.monotonic,
            wall_clock=lambda: 1_700_000_000.0,
        )
        self.pool.listen(self.together.events)
        self.router = a_router(self.pool, routed=self.routed)
        if kind == "gateway":
            self.together.attach(self.router)
        a, _ = self.pool.servers
        if source is not None:
            self.pool.identify(a, a.cards, {0: source})
        self.registry = CollectorRegistry()
        for collector in self.together.collectors:
            self.registry.register(collector)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"prefixway_{name}", labels)

    def status(self) -> dict[str, object]:
        """As a client reads it."""
        told: dict[str, object] = json.loads(json.dumps(self.together.status()))
        return told

    async def matched(self) -> int | None:
        """Tokens of the prompt that ``a`` is known to hold."""
        key = next(replica.key for replica in self.pool.replicas if replica.id == "a")
        root = chain_root(self.together.secret.value, MODEL, "", "", BLOCK)
        chain = extend_chain(root, pack_tokens(PROMPT), BLOCK)
        found = await self.together.index.match({BLOCK: chain}, [key])
        return found[key].l0 if key in found else None

    def state(self, id_: str = "a") -> FeedState | None:
        key = next(replica.key for replica in self.pool.replicas if replica.id == id_)
        stats = self.together.stats(key)
        return None if stats is None else stats.state


class House:
    """Processes that run until the test's end, behind one proxy."""

    def __init__(self, redis: RedisServer, proxy: TcpProxy, publisher: EventPublisher, stack: AsyncExitStack) -> None:
        self.redis, self.proxy, self._stack = redis, proxy, stack
        self._publisher = publisher
        self.source = EventSource(publisher.endpoint, publisher.replay_endpoint)

    def make(self, kind: Kind = "gateway", **settings: str) -> Process:
        """It does not run yet."""
        return Process(f"redis://127.0.0.1:{self.proxy.port}", self.source, kind, settings)

    async def start(self, kind: Kind = "gateway", **settings: str) -> Process:
        process = self.make(kind, **settings)
        await self._stack.enter_async_context(_running(process))
        return process

    def serve(self) -> None:
        """The replica now has the prompt."""
        cache = BlockCache(100, BLOCK)
        cache.serve(PROMPT)
        self._publisher.publish(cache.take_events())

    def serve_more(self) -> None:
        """And another one."""
        cache = BlockCache(100, BLOCK)
        cache.serve(PROMPT[::-1])
        self._publisher.publish(cache.take_events())


@asynccontextmanager
async def _running(process: Process) -> AsyncIterator[None]:
    await process.together.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(process.together.finish)
        for part in process.together.parts:
            await stack.enter_async_context(running(part.run()))
        yield


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def house(redis: RedisServer) -> AsyncIterator[House]:
    redis.client().flushall()
    async with TcpProxy(redis.port) as proxy, EventPublisher() as publisher, AsyncExitStack() as stack:
        yield House(redis, proxy, publisher, stack)


async def test_one_writes_and_all_read(house: House) -> None:
    """An indexer, and gateways inside and outside; one secret, though nobody set any."""
    writer, inside, outside = await house.start("indexer"), await house.start(), await house.start(indexer="outside")
    house.serve()
    processes = (writer, inside, outside)
    await eventually(lambda: all(process.state() is FeedState.FRESH for process in processes) and _holds(house, 11))
    assert [await process.matched() for process in processes] == [10 * BLOCK] * 3

    assert len({process.together.secret.value for process in (writer, inside, outside)}) == 1
    assert not outside.together.events.feeds
    assert outside.status()["registered"] == {"a": {"epoch": _epoch(outside), "state": "fresh", "complete": True}}
    assert sorted(str(process.status()["writes"]) for process in (writer, inside, outside)) == ["['a']", "[]", "[]"]
    assert (outside.state("b"), outside.metric("shared_index_replicas")) == (None, 1)


async def test_one_checks_a_replica_and_what_was_lost_from_redis_is_counted(house: House) -> None:
    """Whoever writes it; where gateways follow no events, one of them."""
    writer, other, outside = await house.start(), await house.start(), await house.start(indexer="outside")
    key = next(replica.key for replica in writer.pool.replicas if replica.id == "a")
    house.serve()
    await eventually(lambda: _holds(house, 11) and not outside.together.unindexed())
    assert sorted(process.together.may_check(key) for process in (writer, other)) == [False, True]
    assert outside.together.may_check(key) is (
        outside.together.members.first_gateway(key) == outside.together.process_id
    )
    assert writer.together.index_losses + other.together.index_losses == 0

    house.redis.client().flushall()
    house.serve_more()

    await eventually(lambda: writer.together.index_losses + other.together.index_losses > 0)


def _holds(house: House, members: int) -> bool:
    client = house.redis.client()
    return any(client.scard(name) == members for name in client.keys("*:l0"))


def _epoch(process: Process) -> int:
    return process.together.remote.registries[MODEL].entries["a"].epoch


async def test_an_index_of_its_own_beside_shared_orders(house: House) -> None:
    """PREFIXWAY_INDEX=memory: every process follows everything; strategy and load are shared all the same."""
    one, two = await house.start(index="memory"), await house.start(index="memory")
    house.serve()
    await eventually(lambda: one.state() is two.state() is FeedState.FRESH)
    await eventually(lambda: one.together.memory.block_owners() == two.together.memory.block_owners() == 10)
    assert await two.matched() == 10 * BLOCK
    assert two.status()["kind"] == "memory"

    await one.together.orders.give(Order(STRATEGY, value="round_robin", id="1"))
    await eventually(lambda: two.router.strategy == "round_robin")
    await eventually(lambda: one.metric("load_peers") == 1)
    assert not house.redis.client().keys("*ns=*")


async def test_load_is_shared_unless_it_is_not_wanted(house: House) -> None:
    """And by an indexer never: it has none."""
    process, indexer = house.make(share_load="false"), house.make("indexer")

    assert process.together.peer_load is None
    assert indexer.together.peer_load is None
    assert house.make("indexer", l2="estimate").together.budget.l2 is None
    assert process.metric("load_peers") is None


async def test_a_start_waits_for_redis_only_so_long(house: House) -> None:
    """It does not answer: with an own secret, and what is followed here. Later it agrees with the others."""
    first = await house.start()
    house.proxy.cut()
    late = await house.start()
    house.serve()
    await eventually(lambda: late.together.memory.block_owners() == 10)
    assert await late.matched() == 10 * BLOCK
    assert late.together.secret.value != first.together.secret.value

    await house.proxy.heal()

    await eventually(lambda: late.together.secret.value == first.together.secret.value)
    await eventually(lambda: late.together.memory.block_owners() == 10 and late.state() is FeedState.FRESH)
    assert await late.matched() == 10 * BLOCK


async def test_another_secret_voids_what_was_hashed_under_the_old_one(house: House) -> None:
    """What was sent where is forgotten, registries are read anew, feeds begin at the beginning."""
    process = await house.start(l2="estimate")
    house.serve()
    await eventually(lambda: process.state() is FeedState.FRESH and process.together.memory.block_owners() == 10)
    estimate = process.together.budget.l2
    assert estimate is not None
    estimate.finished([1, 2], 256, now=0.0)
    key = next(replica.key for replica in process.pool.replicas if replica.id == "b")
    process.routed.end(process.routed.add(key, {BLOCK: [1, 2]}, now=0.0), now=0.0, keep=True)

    process.together.secret.use(b"another one")

    assert process.routed.match({BLOCK: [1, 2]}, [key], now=1.0) == {}
    assert (process.together.memory.block_owners(), estimate.chunks) == (0, 0)
    await eventually(lambda: process.together.memory.block_owners() == 10)
    assert await process.matched() == 10 * BLOCK


async def test_secrets_that_differ_by_setting_are_told_loudly(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """On the page, in the metrics, in the log. Each goes on with what it knows itself, and credits nothing else."""
    one, two = await house.start(hash_secret="one"), await house.start(hash_secret="two")
    reader = await house.start(hash_secret="three", indexer="outside")
    house.serve()

    await eventually(lambda: reader.status()["under_another_secret"] == ["a"], timeout_s=30)
    await eventually(lambda: one.metric("members_divergent", what="secret") == 2)
    assert reader.metric("shared_index_foreign") == 1
    divergence = one.status()["divergence"]
    assert isinstance(divergence, dict)
    assert sorted(divergence["secret"]["elsewhere"]) == sorted(process.together.process_id for process in (two, reader))
    await eventually(lambda: "2 of 2 other processes differ from this one: secret: " in caplog.text)
    await eventually(lambda: [process.together.memory.block_owners() for process in (one, two)] == [10] * 2)
    assert [await process.matched() for process in (one, two)] == [10 * BLOCK] * 2
    assert await reader.matched() is None
    assert reader.state() is FeedState.BLIND


async def test_two_with_one_name_are_two(house: House) -> None:
    """As in two containers with the same host name and process number."""
    one, two = await house.start(), await house.start()
    await eventually(lambda: one.together.members.others and two.together.members.others)

    members = one.status()["members"]
    assert isinstance(members, list)
    assert len({member["name"] for member in members}) == 1
    assert {member["process"] for member in members} == {one.together.process_id, two.together.process_id}
    assert one.metric("members", kind="gateway") == 2


async def test_what_was_kept_of_a_blind_replica_ends_when_another_process_sees_it(house: House) -> None:
    """What was sent there is a guess, and the index is not."""
    reader = await house.start(indexer="outside")
    key = next(replica.key for replica in reader.pool.replicas if replica.id == "a")
    reader.routed.end(reader.routed.add(key, {BLOCK: [1, 2]}, now=0.0), now=0.0, keep=True)
    assert reader.state() is FeedState.BLIND
    assert reader.routed.match({BLOCK: [1, 2]}, [key], now=1.0) == {key: 2 * BLOCK}

    await house.start("indexer")

    await eventually(lambda: reader.state() is FeedState.FRESH)
    assert reader.routed.match({BLOCK: [1, 2]}, [key], now=1.0) == {}


async def test_a_stop_in_order_leaves_nobody_in_the_list(house: House) -> None:
    """And does not wait for a Redis that is gone."""
    one, two = house.make(), house.make()
    async with _running(one):
        async with _running(two):
            await eventually(lambda: one.together.members.others)
        await eventually(lambda: not one.together.members.others)
        house.proxy.cut()
    assert list(house.redis.client().hkeys(one.together.keys.fleet("records"))) == [one.together.process_id.encode()]


async def test_a_page_tells_no_password(house: House) -> None:
    """Nor do the parts' names in it."""
    password = "s3same"
    process = Process(f"redis://:{password}@127.0.0.1:1", None, "gateway", {"hash_secret": "t0ps3cret"})

    page = json.dumps(process.status())

    assert password not in page
    assert "t0ps3cret" not in page
    assert process.status()["redis"] == "redis://127.0.0.1:1"
    await process.together.link.close()


async def test_a_fleet_without_replicas(house: House) -> None:
    """Everything runs, and nothing is asked of an index that is not there."""
    process = house.make()
    process.pool.reconcile([])
    async with _running(process):
        await eventually(lambda: process.together.members.known)
        house.redis.client().config_resetstat()
        await asyncio.sleep(0)
        assert await process.together.index.match({BLOCK: [1]}, []) == {}
        assert process.status()["registered"] == {}
        assert process.metric("shared_index_replicas") == 0


async def test_a_registry_of_a_newer_process_and_garbage_beside_it(house: House) -> None:
    """What can be read is used; the rest is counted, and no request fails for it."""
    reader = await house.start(indexer="outside")
    client, keys = house.redis.client(), reader.together.keys
    good = b"1 " + Details(reader.together.secret.id, block_sizes={0: BLOCK}).encode()
    client.hset(keys.registry(MODEL), mapping={"v": "1", "r:a": good, "r:b": b"2 \x80garbage", "r:\xff": b"", "z": "?"})

    await eventually(lambda: reader.metric("shared_index_unreadable") == 2)

    assert reader.metric("shared_index_replicas") == 1
    assert await reader.matched() is None  # its sets are not there
    assert reader.state() is FeedState.BLIND
    assert reader.together.stats(next(iter(reader.pool.replicas)).key) != FeedStats()


async def test_without_a_url_there_is_nobody_to_be_together_with() -> None:
    """Said at once."""
    with pytest.raises(ValueError, match="PREFIXWAY_REDIS_URL"):
        Together(Settings.from_env({}), a_pool(), Routed(), clock=time.monotonic, wall_clock=lambda: 0.0)


@pytest.mark.parametrize("name", ["members", "records", "orders", "secret"])
async def test_something_else_in_a_keys_place_spoils_nothing_but_that(
    house: House, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """It is told, once; the index is shared all the same, and the rest too when the key is free again."""
    writer, reader = await house.start(), await house.start(indexer="outside")
    client, keys = house.redis.client(), writer.together.keys
    client.delete(keys.fleet(name))
    client.lpush(keys.fleet(name), "somebody else's")
    await eventually(lambda: caplog.text.count("WRONGTYPE") >= 2)
    house.serve()
    await eventually(lambda: reader.state() is FeedState.FRESH and _holds(house, 11))
    assert await reader.matched() == 10 * BLOCK
    assert caplog.text.count("WRONGTYPE") < 5

    client.delete(keys.fleet(name))
    await reader.together.orders.give(Order(STRATEGY, value="round_robin", id="1"))
    await eventually(lambda: writer.router.strategy == "round_robin")
    await eventually(lambda: writer.together.members.others and reader.together.members.others)
