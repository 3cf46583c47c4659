"""Gateways and indexers on one Redis: what one knows all know, whatever happens to Redis or to one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from time import monotonic

import pytest

from gateway.app import Gateway, running_gateway
from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.trust import FeedState
from gateway.shared.link.keys import Keys
from loadtest.replica import ReplicaOptions
from tests.end_to_end.house import FAST
from tests.end_to_end.prediction_watch import cached, matched
from tests.end_to_end.redis_troubles import TROUBLES
from tests.end_to_end.shared_house import MODEL, SharedHouse, shared_house, together
from tests.fakes.redis_servers import FLAVOURS
from tests.fakes.waiting import eventually

INSIDE, OUTSIDE = {"indexer": "inside"}, {"indexer": "outside"}
PROMPT = " ".join(["the same long beginning"] * 60)


def is_settled(house: SharedHouse, number: int = 0) -> str:
    """Empty once Redis holds exactly what the replicas do, and everybody has read where."""
    version = house.redis.client().hget(Keys().registry(MODEL), "v")
    for gateway in house.gateways:
        registry = together(gateway).remote.registries.get(MODEL)
        if registry is None or registry.version != version:
            return "the registry is not read yet"
    return house.is_true(together(house.gateways[number]).secret.value)


async def settle(house: SharedHouse, number: int = 0) -> None:
    await eventually(lambda: not is_settled(house, number), timeout_s=40)


async def eventually_answers(ask: Callable[[], Awaitable[bool]], timeout_s: float = 40.0) -> None:
    """Ask until the answer is yes."""
    async with asyncio.timeout(timeout_s):
        while not await ask():  # noqa: ASYNC110 - asking is the test
            await asyncio.sleep(0.05)


async def _comes_true(house: SharedHouse) -> bool:
    """Whether the second gateway predicts what its replica then has."""
    answer = await house.complete(1, PROMPT)
    return matched(answer) == cached(answer)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_what_one_gateway_indexed_the_other_matches(flavour: str) -> None:
    """The second follows no events at all; both decide the same."""
    async with shared_house([INSIDE, OUTSIDE], flavour=flavour) as house:
        first = await house.complete(0, PROMPT)
        await settle(house)
        again = await house.complete(1, PROMPT)

        assert (cached(first), again.headers["x-prefixway-reason"]) == (0, "prefix")
        assert matched(again) == cached(again) > 100
        assert again.headers["x-prefixway-replica"] == first.headers["x-prefixway-replica"]
        assert together(house.gateways[1]).link.stats.lookups["ok"] > 0


async def test_indexers_outside_write_and_gateways_read() -> None:
    """Two indexers for three replicas, two gateways; every prediction comes true."""
    async with shared_house([OUTSIDE, OUTSIDE], [{}, {}]) as house:
        keys = [ReplicaKey(MODEL, id_) for id_ in house.replicas]
        await eventually(lambda: all(together(house.gateways[0]).remote.entry(key) for key in keys))
        talk = house.conversations()
        async with talk.going_on():
            await eventually(lambda: len(talk.answers) > 100)
        await settle(house)
        await house.complete(0, PROMPT)
        await settle(house)
        answers = [await house.complete(number, PROMPT) for number in (0, 1)]

        assert not talk.errors
        assert [together(indexer).members.mine.kind for indexer in house.indexers] == ["indexer"] * 2
        written = [key for indexer in house.indexers for key in together(indexer).writer.written]
        assert sorted(key.server_id for key in written) == ["a", "b", "c"]
        assert not any(together(gateway).writer.written for gateway in house.gateways)
        assert all(matched(answer) == cached(answer) > 0 for answer in answers)


@pytest.mark.parametrize("name", TROUBLES)
async def test_no_request_fails_whatever_happens_to_redis(name: str) -> None:
    """Under load; afterwards the index is the caches again, and the reader reads it, and all agree on the secret."""
    async with shared_house([INSIDE, OUTSIDE, INSIDE]) as house:
        talk = house.conversations()
        async with talk.going_on():
            await eventually(lambda: len(talk.answers) > 30)
            async with TROUBLES[name](house):
                before = len(talk.answers)
                await eventually(lambda: len(talk.answers) > before + 60, timeout_s=60)
            before = len(talk.answers)
            await eventually(lambda: len(talk.answers) > before + 30)
        await settle(house)
        await house.complete(0, PROMPT)
        await settle(house)

        assert not talk.errors
        secrets = {together(gateway).secret.value for gateway in house.gateways}
        assert len(secrets) == 1

        async def is_matched_by_the_reader() -> bool:
            answer = await house.complete(1, PROMPT)
            return matched(answer) == cached(answer) > 100 and "unavailable" not in answer.headers["x-prefixway-reason"]

        await eventually_answers(is_matched_by_the_reader)


@pytest.mark.parametrize("name", ["slow", "refusing", "cut", "frozen", "restarted_empty"])
async def test_without_redis_a_gateway_says_so_and_uses_what_it_knows(name: str) -> None:
    """The reader routes by what it sent itself; the one that follows the events matches as ever."""
    async with shared_house([INSIDE, OUTSIDE]) as house:
        await house.complete(0, PROMPT)
        await settle(house)
        async with TROUBLES[name](house):
            reader = together(house.gateways[1])
            answers = [await house.complete(1, f"{number} {PROMPT}") for number in range(5)]
            await eventually(lambda: not reader.link.is_up)
            skipped = reader.link.stats.lookups["skipped"]
            blind = await house.complete(1, PROMPT)
            seeing = await house.complete(0, PROMPT)
            metrics = (await house.clients[1].get(_metrics_url(house, 1))).text

        assert {answer.status_code for answer in answers} == {200}
        assert "index_unavailable" in blind.headers["x-prefixway-reason"]
        assert matched(seeing) == cached(seeing) > 100
        assert reader.link.stats.lookups["skipped"] > skipped
        assert "prefixway_redis_up 0.0" in metrics


def _metrics_url(house: SharedHouse, number: int) -> str:
    return f"http://127.0.0.1:{house.gateways[number].metrics.port}/metrics"


async def test_a_start_without_redis_serves_and_joins_the_others_later() -> None:
    """Its own secret at first, then the fleet's: what it hashed under the other one is forgotten."""
    async with shared_house([INSIDE]) as house:
        await house.proxy.refuse()
        late = await house.add_gateway()
        assert (await house.complete(1, PROMPT)).status_code == 200
        assert together(late).secret.value != together(house.gateways[0]).secret.value

        await house.proxy.heal()
        await eventually(lambda: together(late).secret.value == together(house.gateways[0]).secret.value)
        await settle(house)

        await eventually_answers(lambda: _comes_true(house))


async def test_more_events_than_a_replay_holds_survive_everybody() -> None:
    """Rolling restarts: each newcomer takes over what the one before it knows; the index is the caches all along."""
    options = ReplicaOptions(speeds=FAST, buffer_steps=5, capacity_blocks=512)
    async with AsyncExitStack() as one, AsyncExitStack() as two, shared_house([OUTSIDE], options=options) as house:
        for number in range(30):
            await house.complete(0, f"{number} {PROMPT}")
        first = await house.add_gateway(one)
        second = await house.add_gateway(two)
        for number in range(150):  # whatever was missed at first is evicted by now
            await house.complete(0, f"{number} again {PROMPT} {number}")
        await eventually(lambda: not house.is_true(together(first).secret.value), timeout_s=40)
        secret = together(first).secret.value
        third = None
        for stack in (one, two):
            await stack.aclose()
            third = await house.add_gateway()
            await eventually(partial(_knows_as_much, third), timeout_s=40)
            assert not house.is_true(secret)
            for number in range(20):
                await house.complete(0, f"{number} {PROMPT}")
            await eventually(lambda: not house.is_true(secret), timeout_s=40)
        assert second is not third


def _knows_as_much(gateway: Gateway) -> bool:
    """Whether it could take over the writing of every replica."""
    best = together(gateway).succession
    keys = [replica.key for replica in gateway.pool.replicas]
    return all(best.knows_best(key) for key in keys)


async def test_a_replica_that_leaves_leaves_nothing_in_redis(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No key names it, within moments."""
    file = tmp_path_factory.mktemp("replicas") / "replicas.yaml"
    async with shared_house([], ids=("a", "b")) as house:
        lines = [f"- id: {id_}\n  url: {replica.url}\n" for id_, replica in house.replicas.items()]
        file.write_text("".join(lines))
        gateway = await house.add_gateway(replicas="", replicas_file=str(file))
        await house.complete(0, PROMPT)
        await settle(house)

        file.write_text(lines[0])

        def is_gone() -> bool:
            client = house.redis.client()
            names, fields = client.keys("*:r:b:*"), client.hkeys(Keys().registry(MODEL))
            return not names and b"r:b" not in fields

        await eventually(is_gone, timeout_s=40)
        assert together(gateway).remote.entry(ReplicaKey(MODEL, "a")) is not None


async def test_a_replica_that_restarts_owns_nothing_for_any_reader() -> None:
    """Its engine is new and empty: no gateway credits what the old one held."""
    async with shared_house([INSIDE, OUTSIDE]) as house:
        first = await house.complete(0, PROMPT)
        await settle(house)
        id_ = first.headers["x-prefixway-replica"]
        await house.replicas[id_].restart()
        await settle(house)

        await eventually_answers(lambda: _comes_true(house))


async def test_what_was_kept_while_redis_was_late_is_forgotten_when_it_answers() -> None:
    """Meanwhile the reader had nothing else to go by. Nothing that was evicted since is expected any more."""
    options = ReplicaOptions(speeds=FAST, capacity_blocks=512)
    async with shared_house([INSIDE, OUTSIDE], options=options) as house:
        for number in range(30):  # so that all replicas have told of themselves
            await house.complete(0, f"{number} {PROMPT}")
        await settle(house)
        link = together(house.gateways[1]).link
        house.proxy.delay(0.08)  # later than the budget, and no reason for the writer to write anew
        for number in range(10):
            await house.complete(1, f"{number} late {PROMPT}")
        assert not link.is_up
        await house.complete(1, f"kept {PROMPT}")
        await house.proxy.heal()

        async def is_up() -> bool:
            await house.complete(1, PROMPT)
            return link.is_up

        await eventually_answers(is_up)
        for number in range(200):
            await house.complete(0, f"{number} fills the caches {PROMPT}")
        await settle(house)
        answer = await house.complete(1, f"kept {PROMPT}")

        assert (cached(answer), answer.headers["x-prefixway-reason"]) == (0, "cost")


async def test_nobody_is_believed_whose_writer_is_dead() -> None:
    """Its sets lapse within seconds, and the readers say that they know nothing of what it wrote."""
    async with AsyncExitStack() as stack, shared_house([OUTSIDE]) as house:
        await house.add_indexer(stack)
        await eventually(lambda: not is_settled(house))
        first = await house.complete(0, PROMPT)
        await settle(house)
        reader, key = together(house.gateways[0]), ReplicaKey(MODEL, first.headers["x-prefixway-replica"])
        client = house.redis.client()
        lives = [client.ttl(name) for name in client.keys("pw:v1:*:l0")]
        assert lives
        assert all(0 < life <= 5 for life in lives)
        await stack.aclose()

        await eventually_answers(lambda: _says_nothing_of(house))
        stats = reader.stats(key)
        assert stats is not None
        assert stats.state is FeedState.BLIND


async def _says_nothing_of(house: SharedHouse) -> bool:
    answer = await house.complete(0, PROMPT)
    is_in_time = "unavailable" not in answer.headers["x-prefixway-reason"]
    return is_in_time and "l0=" not in answer.headers["x-prefixway-matched"]


async def test_that_nobody_indexes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A gateway that leaves the events to others names the replicas whose events nobody follows, and what to do."""
    async with (
        shared_house([]) as house,
        running_gateway(house.settings(**OUTSIDE), clock=lambda: 5 * monotonic()) as hurried,  # it waits ten seconds
    ):
        house.gateways.append(hurried)
        await eventually(lambda: "prefixway index" in caplog.text, timeout_s=40)
        assert "a, b, c" in caplog.text
        await house.add_indexer()
        await settle(house)
