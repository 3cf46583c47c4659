"""Two versions of the gateway side by side on one Redis: an upgrade and a way back, under load, and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import msgspec
import pytest

from gateway.app import Gateway
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.link.keys import SCHEMA, Keys
from gateway.shared.load.load_messages import Dispatched, ReplicaName, encode
from gateway.shared.orders.order import DRAIN, STRATEGY
from gateway.shared.processes.member_record import MemberRecord
from tests.end_to_end.prediction_watch import cached, matched
from tests.end_to_end.shared_house import MODEL, SharedHouse, peer_inflight, shared_house, together
from tests.fakes.waiting import eventually

NEXT = SCHEMA + 1
PROMPT = " ".join(["the same long beginning"] * 60)
#: Nobody walks over what there is, and nothing that may hold the server long.
NEVER = {
    "keys",
    "scan",
    "sscan",
    "hscan",
    "smembers",
    "flushall",
    "flushdb",
    "sort",
    "sinter",
    "sunion",
    "hkeys",
    "hvals",
}


@pytest.fixture
async def house() -> AsyncIterator[SharedHouse]:
    """Three replicas and no gateway yet."""
    async with shared_house([]) as house:
        yield house


async def settled(house: SharedHouse, gateway: Gateway, schema: int) -> None:
    """Wait until a gateway knows where exactly what the replicas hold lies in Redis, in the keys of its own schema."""
    process, keys = together(gateway), Keys(schema=schema)
    await eventually(lambda: not house.is_true(process.secret.value, keys), timeout_s=40)

    def is_read() -> bool:
        registry = process.remote.registries.get(MODEL)
        return registry is not None and registry.version == house.redis.client().hget(keys.registry(MODEL), "v")

    await eventually(is_read)


async def tell(gateway: Gateway, path: str, **body: str) -> None:
    """As an operator does."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client:
        (await client.post(path, json=body)).raise_for_status()


async def test_two_schemas_side_by_side(house: SharedHouse) -> None:
    """Each has a true index in keys of its own; they know of each other, and share secret, orders and load."""
    old = [await house.add_gateway(), await house.add_gateway(indexer="outside")]
    new = [await house.add_gateway(None, NEXT), await house.add_gateway(None, NEXT, indexer="outside")]
    talk = house.conversations()
    async with talk.going_on():
        await eventually(lambda: len(talk.answers) > 60)
    await house.complete(0, PROMPT)
    for gateway, schema in ((old[0], SCHEMA), (old[1], SCHEMA), (new[0], NEXT), (new[1], NEXT)):
        await settled(house, gateway, schema)
    for number in (1, 3):
        answer = await house.complete(number, PROMPT)
        assert matched(answer) == cached(answer) > 100

    assert not talk.errors
    assert len({together(gateway).secret.value for gateway in house.gateways}) == 1
    assert [len(together(gateway).members.others) for gateway in house.gateways] == [3] * 4
    async with house.request_under_way(0, f"other {PROMPT}"):
        await eventually(lambda: [peer_inflight(gateway) for gateway in house.gateways] == [0, 1, 1, 1])

    await tell(old[1], "/drain", server="a")
    await tell(new[0], "/strategy", name="round_robin")
    await eventually(lambda: {gateway.router.strategy for gateway in house.gateways} == {"round_robin"})
    await eventually(lambda: all(_drained(gateway) == ["a"] for gateway in house.gateways))


def _drained(gateway: Gateway) -> list[str]:
    return [server.id for server in gateway.pool.servers if server.draining]


async def test_an_upgrade_and_the_way_back_under_load(house: SharedHouse) -> None:
    """One after another is replaced by the next version, and then back again; no request fails, and every prediction
    comes true at the end. Orders outlive it all."""
    async with AsyncExitStack() as last:
        blocks = [await last.enter_async_context(AsyncExitStack()) for _ in range(2)]
        current = [await house.add_gateway(block) for block in blocks]
        await tell(current[0], "/strategy", name="prefix_aware")
        talk = house.conversations()
        async with talk.going_on():
            for schema in (NEXT, SCHEMA):
                for number in range(2):
                    await _answered(talk, 30)
                    block = await last.enter_async_context(AsyncExitStack())
                    gateway = await house.add_gateway(block, schema)
                    await settled_under_load(gateway)
                    at = house.gateways.index(current[number])
                    del house.clients[at], house.gateways[at]  # nobody asks it any more
                    await blocks[number].aclose()
                    blocks[number], current[number] = block, gateway
            await _answered(talk, 30)

        assert not talk.errors
        await house.complete(0, PROMPT)
        for gateway in current:
            await settled(house, gateway, SCHEMA)
        answer = await house.complete(1, PROMPT)
        assert matched(answer) == cached(answer) > 100
        assert [gateway.router.strategy for gateway in current] == ["prefix_aware"] * 2
        await every_key_has_a_life(house)


async def _answered(talk: Any, more: int) -> None:
    before = len(talk.answers)
    await eventually(lambda: len(talk.answers) >= before + more, timeout_s=60)


async def settled_under_load(gateway: Gateway) -> None:
    """It follows what it is to follow, and has read a registry that tells of every replica."""

    def is_there() -> bool:
        registry = together(gateway).remote.registries.get(MODEL)
        return registry is not None and len(registry.entries) == 3

    await eventually(is_there, timeout_s=40)


async def every_key_has_a_life(house: SharedHouse) -> None:
    """Of whatever there is in Redis."""
    client: Any = house.redis.client()
    lives = {name: client.ttl(name) for name in client.keys("*")}
    assert {name for name, life in lives.items() if life == -1} == set()
    assert all(life <= 31 * 86_400 for life in lives.values())


async def test_everything_in_redis_ends_and_nothing_is_walked_over(house: SharedHouse) -> None:
    """All kinds of keys are there: index, locks, states, members, secret, orders. What is not renewed goes."""
    async with AsyncExitStack() as stack:
        writer = together(await house.add_gateway(stack)).writer
        other = await house.add_gateway(stack, indexer="outside")
        house.redis.client().config_resetstat()
        await tell(other, "/drain", server="b")
        await tell(other, "/undrain", server="b")
        talk = house.conversations()
        async with talk.going_on():
            await eventually(lambda: len(talk.answers) > 60)
        await house.replicas["a"].restart()
        await eventually(lambda: writer.stats.epochs["engine"] and not writer.is_busy)
        used = house.redis.command_counts().keys()
        await every_key_has_a_life(house)
        living: Any = house.redis.client().keys("*")
    client: Any = house.redis.client()

    assert not talk.errors
    assert not used & NEVER
    assert {_kind(name) for name in living} >= {"registry", "epochs", "writer", "l0", "members", "records", "secret"}
    assert any(b"orders" in name for name in living)
    await every_key_has_a_life(house)
    assert {_kind(name) for name in client.keys("*")} >= {"handover", "registry"}
    assert not any(name.endswith(b":writer") for name in client.keys("*"))


def _kind(name: bytes) -> str:
    return name.decode().rpartition(":")[2]


# What a newer process of the same schema may write


async def test_what_a_newer_process_adds_is_read(house: SharedHouse) -> None:
    """Fields that are unknown here, in everything there is: entries, records, load, orders. Nobody fails on any."""
    reader = await house.add_gateway(indexer="outside")
    process, client, keys = together(reader), house.redis.client(), Keys()
    details = {
        "secret_id": process.secret.id,
        "block_sizes": {0: 16, 7: 1},
        "tiers": [0, 5],
        "state": "fresh",
        "new": [],
    }
    key, odd = ReplicaKey(MODEL, "a"), msgspec.msgpack.encode
    client.sadd(keys.blocks(key, 5, Tier.L0), "@")
    client.hset(keys.registry(MODEL), mapping={"v": "newer", "r:a": b"5 " + odd(details), "new field": "1"})
    record = MemberRecord("newer", kind="oracle", version="9.9", secret_id=process.secret.id)
    told = msgspec.msgpack.decode(record.encode()) | {"mood": {"good": True}}
    client.hset(keys.fleet("records"), "newer", odd(told))
    client.hset(keys.fleet("members"), "newer", f"{_now_ms(client)} 1")
    order = b'7 id {"kind":"dance","target":"b","value":"waltz","tempo":180}'
    drain = b'8 id2 {"kind":"drain","target":"b","value":"","because":"it is newer"}'
    client.hset(keys.fleet("orders"), mapping={"version": "8", "token": "t", "dance/b": order, "drain/b": drain})
    dispatched = odd([*msgspec.msgpack.decode(odd(_dispatch())), "and", {"more": 1}])
    records, counter = [msgspec.Raw(odd([99, "a new kind"])), msgspec.Raw(dispatched)], itertools.count(1)

    def is_heard() -> bool:  # of whom nothing comes any more nothing is known for long: it tells again
        client.publish(keys.fleet("load"), encode("newer", process.secret.id, next(counter), records))
        return peer_inflight(reader) == 1

    await eventually(lambda: process.remote.entry(key))
    entry = process.remote.entry(key)
    assert entry is not None
    assert (entry.epoch, entry.stats.l0_block_size) == (5, 16)
    await eventually(lambda: process.members.others)
    assert process.members.others["newer"].version == "9.9"
    await eventually(lambda: process.orders.book.version == 8)
    assert sorted(each.kind for each in process.orders.book) == ["dance", DRAIN]
    assert _drained(reader) == ["b"]
    await eventually(is_heard)
    answers = [await house.complete(0, PROMPT) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}

    await tell(reader, "/strategy", name="round_robin")
    await eventually(lambda: client.hget(keys.fleet("orders"), f"{STRATEGY}/"))
    assert client.hget(keys.fleet("orders"), "dance/b") == order


def _dispatch() -> Dispatched:
    return Dispatched(1, ReplicaName(MODEL, "a", 0), 0.5, 100, 2.0, True)


def _now_ms(client: Any) -> int:
    seconds, microseconds = client.time()
    return int(seconds * 1000 + microseconds // 1000)
