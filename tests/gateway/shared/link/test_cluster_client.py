"""A cluster is one Redis: keys are found wherever they lie, also when that changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.script import ScriptCall
from tests.fakes.redis_servers import RedisServer, redis_cluster
from tests.fakes.scripted_server import closed_port
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.shared.link.links import WRITE, echo, linked, until_asked, until_run

KEYS = [f"{{{n}}}:k" for n in range(30)]


@pytest.fixture(scope="module")
def running_nodes() -> Iterator[list[RedisServer]]:
    with redis_cluster() as nodes:
        yield nodes


@pytest.fixture
def nodes(running_nodes: list[RedisServer]) -> list[RedisServer]:
    """Three, empty; each has a third of the slots."""
    for node in running_nodes:
        node.client().flushall()
        node.client().script_flush()
    return running_nodes


def _url(*nodes: RedisServer) -> str:
    return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}"


def _index(key: str) -> int:
    """Which node has the key."""
    return key_slot(key.encode()) * 3 // 16384


def _id(node: RedisServer) -> str:
    return str(node.client().execute_command("CLUSTER MYID").decode())


def _give(slot: int, to: RedisServer, nodes: list[RedisServer]) -> None:
    for node in [to, *nodes]:
        node.client().execute_command("CLUSTER SETSLOT", slot, "NODE", _id(to))


async def test_keys_of_all_nodes_at_once(nodes: list[RedisServer]) -> None:
    """One node is enough to begin with; replies come in the order of the commands, refusals too."""
    async with linked(_url(nodes[1])) as link:
        commands = [command for key in KEYS for command in (("SET", key, key), ("GET", key), ("LPUSH", key, 1))]
        replies = await link.run_all(commands)

        assert replies[0::3] == [b"OK"] * len(KEYS)
        assert replies[1::3] == [key.encode() for key in KEYS]
        assert {reply.code for reply in replies[2::3]} == {"WRONGTYPE"}
        assert all(node.client().dbsize() for node in nodes)


async def test_scripts_run_where_their_key_lies(nodes: list[RedisServer]) -> None:
    """Each node learns them by itself."""
    async with linked(_url(*nodes)) as link:
        for key in KEYS[:6]:
            assert await link.ask(echo(key, key)) == key.encode()
        assert await link.run_all([ScriptCall(WRITE, [key], [key]) for key in KEYS]) == [b"OK"] * len(KEYS)
        assert await link.run(("GET", KEYS[7])) == KEYS[7].encode()


async def test_nodes_that_are_gone_are_passed_over(nodes: list[RedisServer]) -> None:
    """The first ones of the URL may be dead, or answer nothing."""
    async with TcpProxy(nodes[0].port) as proxy:
        proxy.cut()
        url = f"redis+cluster://127.0.0.1:{closed_port()},127.0.0.1:{proxy.port},127.0.0.1:{nodes[2].port}"
        async with linked(url, timeout_s=1.0) as link:
            assert await until_run(link, ("SET", "k", "v")) == b"OK"


async def test_no_node_at_all_is_unavailable() -> None:
    """As with any other Redis."""
    async with linked(f"redis+cluster://127.0.0.1:{closed_port()},127.0.0.1:{closed_port()}") as link:
        with pytest.raises(RedisUnavailable, match="no node of the cluster answers"):
            await link.run(("GET", "k"))
        with pytest.raises(RedisUnavailable):
            await anext(link.subscribe("news"))


async def test_a_slot_that_moved_is_followed(nodes: list[RedisServer]) -> None:
    """MOVED: for lookups, for commands, and for one of several at once."""
    key = KEYS[0]
    slot, home, other = key_slot(key.encode()), nodes[_index(key)], nodes[(_index(key) + 1) % 3]
    async with linked(_url(nodes[0])) as link:
        assert await link.run_all([("GET", key) for key in KEYS]) == [None] * len(KEYS)
        _give(slot, other, nodes)
        try:
            assert await link.run_all([("SET", key, key) for key in KEYS]) == [b"OK"] * len(KEYS)
            assert other.client().get(key) == key.encode()
            other.client().delete(key)
        finally:
            _give(slot, home, nodes)

        assert await link.ask(echo("home", key)) == b"home"
        assert await link.run(("SET", key, "home")) == b"OK"
        assert home.client().get(key) == b"home"


async def test_a_slot_that_is_moving_is_asked_for(nodes: list[RedisServer]) -> None:
    """ASK: a key that is not there any more is at the other node already, though the slot is not."""
    key = KEYS[1]
    slot, home, other = key_slot(key.encode()), nodes[_index(key)], nodes[(_index(key) + 1) % 3]
    async with linked(_url(nodes[0])) as link:
        assert await link.run(("GET", key)) is None
        other.client().execute_command("CLUSTER SETSLOT", slot, "IMPORTING", _id(home))
        home.client().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", _id(other))
        try:
            assert await link.run(("SET", key, "moving")) == b"OK"
            assert await link.run_all([("GET", "k"), ("GET", key)]) == [None, b"moving"]
            assert home.client().execute_command("CLUSTER COUNTKEYSINSLOT", slot) == 0
        finally:
            other.client().execute_command("FLUSHALL")
            _give(slot, home, nodes)


async def test_a_node_that_hangs_holds_nobody_for_long(nodes: list[RedisServer]) -> None:
    """One deadline for all: the map, the redirections, and the nodes of several commands at once."""
    key = next(key for key in KEYS if _index(key) == 1)
    async with linked(_url(*nodes), timeout_s=0.3) as link:
        await until_run(link, ("SET", key, 1))
        with nodes[1].paused():
            for _ in range(2):
                with pytest.raises(RedisUnavailable):
                    await link.run(("GET", key))
                with pytest.raises(RedisUnavailable):
                    await link.run_all([("GET", other) for other in KEYS])

        assert await until_run(link, ("GET", key)) == b"1"


async def test_a_command_without_a_key_first_finds_its_node(nodes: list[RedisServer]) -> None:
    """It is sent somewhere, and redirected; a refusal of the right node is a refusal."""
    async with linked(_url(*nodes)) as link:
        await link.run_all([("SET", key, 1) for key in KEYS])
        replies = await link.run_all([("OBJECT", "ENCODING", key) for key in KEYS])

        assert replies == [b"int"] * len(KEYS)
        assert all(reply.code == "ERR" for reply in await link.run_all([("OBJECT", "FREQ", key) for key in KEYS]))


async def test_what_is_published_reaches_every_node(nodes: list[RedisServer]) -> None:
    """Whichever node one is subscribed at."""
    async with linked(_url(nodes[0])) as link:
        subscriptions = [link.subscribe("news") for _ in range(6)]
        first = [asyncio.ensure_future(anext(subscription)) for subscription in subscriptions]
        await eventually(lambda: sum(int(node.client().pubsub_numsub("news")[0][1]) for node in nodes) == len(first))
        await link.publish("news", b"x")

        assert await asyncio.gather(*first) == [b"x"] * len(first)
        for subscription in subscriptions:
            await subscription.aclose()


async def test_a_plain_url_of_a_cluster_says_what_is_wrong(nodes: list[RedisServer]) -> None:
    """MOVED is a refusal there: it does not pass by itself."""
    key = next(key for key in KEYS if _index(key) != 0)
    async with linked(nodes[0].url) as link:
        with pytest.raises(RedisRefused, match="MOVED"):
            await link.run(("GET", key))


async def test_a_cluster_url_of_a_plain_redis_says_what_is_wrong() -> None:
    """With the words of that Redis."""
    with RedisServer() as server:
        async with linked(_url(server)) as link:
            with pytest.raises(RedisRefused, match="cluster support disabled"):
                await link.run(("GET", "k"))
            (reply,) = await link.run_all([("GET", "k")])
            assert isinstance(reply, RedisRefused)


async def test_a_node_that_dies_takes_only_its_keys_with_it() -> None:
    """And gives them back when it is there again. Keys of the others are found all the while."""
    with redis_cluster() as nodes:
        by_node = [[key for key in KEYS if _index(key) == at] for at in range(3)]
        for node in nodes:
            node.client().config_set("cluster-require-full-coverage", "no")
        async with linked(_url(*nodes), timeout_s=2.0) as link:
            await link.run_all([("SET", key, 1) for key in KEYS])
            nodes[2].kill()
            with pytest.raises(RedisUnavailable):
                await link.run(("GET", by_node[2][0]))
            with pytest.raises(RedisUnavailable):
                await link.run_all([("GET", key) for key in KEYS])
            for key in by_node[0] + by_node[1]:
                assert await until_run(link, ("GET", key)) == b"1"
            nodes[2].start()

            key = random.choice(by_node[2])
            assert await until_run(link, ("SET", key, 2)) == b"OK"
            assert await until_asked(link, echo("back", key)) == b"back"
