"""Gateways on every form of Redis: a cluster, sentinels, TLS, a user of few rights; and on one that is not right."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from redis.crc import key_slot

from gateway.app import Gateway
from gateway.shared.link.keys import Keys
from loadtest.replica import ReplicaOptions, SimulatedReplica
from tests.end_to_end.house import FAST
from tests.end_to_end.prediction_watch import cached, matched
from tests.end_to_end.shared_house import MODEL, SharedHouse, peer_inflight, together
from tests.fakes.redis_servers import FLAVOURS, RedisServer, SentinelSetup, redis_cluster
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually

INSIDE, OUTSIDE = {"indexer": "inside"}, {"indexer": "outside"}
PROMPT = " ".join(["the same long beginning"] * 60)
TLS = Path(__file__).parents[1] / "data" / "tls"
#: Of a user who may do what a fleet needs and nothing else.
RIGHTS = (
    "~pw:* resetchannels &pw:*"
    " -@all +client|setinfo +evalsha +eval +ping +time +publish +subscribe"
    " +get +set +del +unlink +exists +expire +pexpire +rename"
    " +hget +hmget +hset +hdel +hexists +hgetall"
    " +sadd +srem +scard +sismember +smismember"
    " +rpush +lindex"
)
RIGHTS_IN_A_CLUSTER = f"{RIGHTS} +cluster|slots +asking"


def _known_to(flavour: str) -> str:
    """The rights but one that Redis 7.0 takes for a mistake: there is nothing to be allowed there."""
    return RIGHTS.replace(" +client|setinfo", "") if flavour == "redis-system" else RIGHTS


@asynccontextmanager
async def house_on(
    server: RedisServer,
    url: str = "",
    client: Callable[[], Any] | None = None,
    gateways: Sequence[Mapping[str, str]] = (INSIDE, OUTSIDE),
    options: ReplicaOptions | None = None,
) -> AsyncIterator[SharedHouse]:
    """Two replicas and some gateways; the second one only reads."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(TcpProxy(server.port))
        options = options or ReplicaOptions(speeds=FAST)
        replicas = {id_: await stack.enter_async_context(SimulatedReplica(options)) for id_ in ("a", "b")}
        house = SharedHouse(server, proxy, replicas, stack, url=url, client=client)
        for settings in gateways:
            await house.add_gateway(None, **settings)
        yield house


async def settled(house: SharedHouse) -> None:
    """Wait until Redis holds exactly what the replicas do, and everybody has read that."""
    secret = together(house.gateways[0]).secret
    await eventually(lambda: not house.is_true(secret.value), timeout_s=40)
    one, two = house.gateways[:2]
    await eventually(lambda: _epochs(one) == _epochs(two) and len(_epochs(one)) == len(house.replicas))


def _epochs(gateway: Gateway) -> tuple[tuple[str, int], ...]:
    registry = together(gateway).remote.registries.get(MODEL)
    entries = sorted((registry.entries if registry else {}).items())
    return tuple((id_, entry.epoch) for id_, entry in entries)


async def is_shared(house: SharedHouse) -> None:
    """Index, secret, orders and load: what the first gateway knows the second one does."""
    one, two = map(together, house.gateways[:2])
    await house.complete(0, PROMPT)
    await settled(house)
    await _comes_true(house)
    assert one.secret.value == two.secret.value

    await order(house.gateways[1], "round_robin")
    await eventually(lambda: house.gateways[0].router.strategy == "round_robin")
    await order(house.gateways[1], "kv_aware")
    await eventually(lambda: house.gateways[0].router.strategy == "kv_aware")
    async with house.request_under_way(0, f"other {PROMPT}"):
        await eventually(lambda: peer_inflight(house.gateways[1]) == 1)
    await eventually(lambda: peer_inflight(house.gateways[1]) == 0)


async def _comes_true(house: SharedHouse) -> None:
    """The second gateway predicts what its replica then has; at the first try, unless the machine is very busy: then
    Redis answers late, or the gateway has yet to read what a replica that started anew has told the first one. Such a
    try may leave the prompt at every replica, and then it decides nothing.
    """
    answers = [await house.complete(1, PROMPT)]
    while len(answers) < 5 and not _is_predicted(answers[-1]):
        answers.append(await house.complete(1, PROMPT))
    assert matched(answers[-1]) == cached(answers[-1]) > 100
    assert answers[-1].headers["x-prefixway-reason"] == "prefix" or len(answers) > 1


def _is_predicted(answer: httpx.Response) -> bool:
    return "unavailable" not in answer.headers["x-prefixway-reason"] and matched(answer) > 0


async def order(gateway: Gateway, strategy: str) -> None:
    """As an operator does."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client:
        (await client.post("/strategy", json={"name": strategy})).raise_for_status()


async def page(gateway: Gateway) -> dict[str, Any]:
    """What /status says of the index."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.admin.port}", trust_env=False) as client:
        index: dict[str, Any] = (await client.get("/status")).json()["index"]
        return index


async def metrics(gateway: Gateway) -> str:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.metrics.port}", trust_env=False) as client:
        return (await client.get("/metrics")).text


# A cluster


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[RedisServer]]:
    with redis_cluster() as nodes:
        yield nodes


@pytest.fixture
def empty_nodes(nodes: list[RedisServer]) -> list[RedisServer]:
    for node in nodes:
        node.client().flushall()
    return nodes


@pytest.fixture
def cluster_client(nodes: list[RedisServer]) -> Iterator[redis.RedisCluster]:
    client = redis.RedisCluster(host="127.0.0.1", port=nodes[0].port, protocol=2)
    yield client
    client.close()


def home_of(nodes: Sequence[RedisServer], key: str) -> RedisServer:
    """The node that has the key."""
    return nodes[key_slot(key.encode()) * len(nodes) // 16384]


async def test_a_cluster(empty_nodes: list[RedisServer], cluster_client: redis.RedisCluster) -> None:
    """Three nodes, of which the gateways are told one."""
    url = f"redis+cluster://127.0.0.1:{empty_nodes[1].port}"
    async with house_on(empty_nodes[1], url, lambda: cluster_client) as house:
        talk = house.conversations()
        async with talk.going_on():
            await eventually(lambda: len(talk.answers) > 60)

        assert not talk.errors
        await is_shared(house)
        assert sum(bool(node.client().dbsize()) for node in empty_nodes) >= 1


async def test_a_node_of_a_cluster_dies_and_comes_back_empty(
    empty_nodes: list[RedisServer], cluster_client: redis.RedisCluster
) -> None:
    """The one that has the index. No request fails, and the index is true again."""
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in empty_nodes)
    home = home_of(empty_nodes, Keys().registry(MODEL))
    async with house_on(home, url, lambda: cluster_client) as house:
        talk = house.conversations()
        async with talk.going_on():
            await eventually(lambda: len(talk.answers) > 30)
            await asyncio.to_thread(home.kill)
            before = len(talk.answers)
            await eventually(lambda: len(talk.answers) > before + 30, timeout_s=40)
            await asyncio.to_thread(home.start)
            before = len(talk.answers)
            await eventually(lambda: len(talk.answers) > before + 30, timeout_s=40)

        assert not talk.errors
        await eventually(lambda: all(together(gateway).link.is_up for gateway in house.gateways), timeout_s=40)
        await is_shared(house)


@pytest.mark.parametrize("elsewhere", ["fleet", "index"])
async def test_a_plain_url_of_a_cluster_is_told_and_costs_no_request(
    empty_nodes: list[RedisServer], caplog: pytest.LogCaptureFixture, elsewhere: str
) -> None:
    """In the log, on the page and in the metrics, whether it is what all share or the index that lies elsewhere."""
    key = Keys().fleet("orders") if elsewhere == "fleet" else Keys().registry(MODEL)
    home = home_of(empty_nodes, key)
    other = next(node for node in empty_nodes if node is not home)
    with caplog.at_level(logging.WARNING):
        async with house_on(other, gateways=[OUTSIDE, INSIDE]) as house:
            answers = [await house.complete(number % 2, PROMPT) for number in range(6)]
            told = "its URL must begin with redis+cluster://"
            await eventually(lambda: told in caplog.text)
            pages = [await page(gateway) for gateway in house.gateways]
            scraped = [await metrics(gateway) for gateway in house.gateways]

    assert {answer.status_code for answer in answers} == {200}
    assert cached(answers[-1]) == matched(answers[-1]) > 100  # by what the gateway follows itself
    assert all(told["redis_refused"]["MOVED"] > 0 for told in pages)
    assert all('prefixway_redis_refused_total{code="MOVED"}' in text for text in scraped)
    assert caplog.text.count("redis+cluster://") < 20


# Sentinels


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_sentinels_name_another_server(flavour: str) -> None:
    """A failover under load: no request fails, the index is true again at the new primary, and so are orders."""
    with SentinelSetup(flavour) as setup:
        primaries = [setup.primary]

        def at_primary() -> Any:
            return primaries[-1].client()

        async with house_on(setup.primary, setup.url, at_primary) as house:
            await is_shared(house)
            await order(house.gateways[0], "prefix_aware")
            talk = house.conversations()
            async with talk.going_on():
                await eventually(lambda: len(talk.answers) > 30)
                await asyncio.to_thread(setup.failover)
                primaries.append(setup.replica)
                before = len(talk.answers)
                await eventually(lambda: len(talk.answers) > before + 60, timeout_s=40)

            assert not talk.errors
            await eventually(lambda: all(together(gateway).link.is_up for gateway in house.gateways), timeout_s=40)
            await settled(house)
            assert {gateway.router.strategy for gateway in house.gateways} == {"prefix_aware"}
            await is_shared(house)


# A login


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("url", ["redis://:wrong@{at}", "redis://{at}", "redis://somebody:wrong@{at}"])
async def test_a_wrong_password_is_told_and_costs_no_request(
    flavour: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each gateway goes on alone. Neither the wrong password nor the right one is told."""
    with RedisServer(flavour, {"requirepass": "right0"}) as server, caplog.at_level(logging.INFO):
        async with house_on(server, url.format(at=f"127.0.0.1:{server.port}")) as house:
            answers = [await house.complete(number % 2, PROMPT) for number in range(6)]
            expected = "WRONGPASS" if "wrong" in url else "NOAUTH"
            await eventually(lambda: f"requests go on without it: {expected}" in caplog.text)
            pages = [await page(gateway) for gateway in house.gateways]
            scraped = await metrics(house.gateways[0])

    assert {answer.status_code for answer in answers} == {200}
    assert matched(answers[4]) == cached(answers[4]) > 100
    assert not any(told["redis_up"] for told in pages)
    assert all(told["redis_refused"][expected] > 0 for told in pages)
    assert "prefixway_redis_up 0.0" in scraped
    assert not {"wrong", "right0"} & set(json.dumps(pages).replace('"', " ").split())
    assert "right0" not in caplog.text
    assert ":wrong" not in caplog.text


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_tls_and_a_user_of_few_rights(flavour: str) -> None:
    """All that a fleet needs is allowed, also to write anew what was lost and to hand over; and nothing else."""
    user = f"gate on >s3same {_known_to(flavour)}"
    options = ReplicaOptions(speeds=FAST, buffer_steps=5, capacity_blocks=80)
    with RedisServer(flavour, {"requirepass": "admin", "user": user}) as server:
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
        async with TcpProxy(server.port, tls=serving) as proxy:
            url = f"rediss://gate:s3same@127.0.0.1:{proxy.port}?ssl_ca_certs={TLS / 'certificate.pem'}"
            async with house_on(server, url, options=options) as house:
                await is_shared(house)
                server.client().flushall()
                server.client().script_flush()
                talk = house.conversations()
                async with talk.going_on():
                    await eventually(lambda: len(talk.answers) > 60)
                await is_shared(house)
                async with AsyncExitStack() as stack:
                    late = await house.add_gateway(stack)
                    await eventually(
                        lambda: [feed.complete for feed in together(late).events.feeds.values()] == [True] * 2
                    )
                await house.replicas["a"].restart()
                await is_shared(house)

        assert not talk.errors
        assert [together(gateway).link.stats.refused for gateway in house.gateways] == [{}] * 3
        assert server.client().acl_log() == []
        granted = {right.removeprefix("+") for right in RIGHTS.split() if right.startswith("+")}
        unused = granted - server.command_counts().keys()
        assert unused <= {"smismember", "client|setinfo", "ping"}  # of L1; of some versions; after a silence


async def test_a_user_of_few_rights_in_a_cluster(
    empty_nodes: list[RedisServer], cluster_client: redis.RedisCluster
) -> None:
    """He may ask for the map as well, and follow slots that move."""
    for node in empty_nodes:
        node.client().execute_command("ACL", "SETUSER", "gate", "on", ">s3same", *RIGHTS_IN_A_CLUSTER.split())
        node.client().acl_log_reset()
    url = f"redis+cluster://gate:s3same@127.0.0.1:{empty_nodes[0].port}"
    async with house_on(empty_nodes[0], url, lambda: cluster_client) as house:
        await is_shared(house)

        assert [together(gateway).link.stats.refused for gateway in house.gateways] == [{}] * 2
        assert [node.client().acl_log() for node in empty_nodes] == [[]] * 3
