"""The heartbeat: one exchange, whose failures stay with those they concern."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command
from gateway.shared.orders.fleet_orders import FleetOrders
from gateway.shared.orders.order import DRAIN, Order
from gateway.shared.processes.hash_secret import HashSecret
from gateway.shared.processes.heartbeat import Heartbeat
from gateway.shared.processes.member_record import MemberRecord
from gateway.shared.processes.members import Members
from gateway.shared.processes.secret_agreement import SecretAgreement
from tests.fakes.background import running
from tests.fakes.redis_servers import RedisServer, redis_cluster
from tests.fakes.waiting import eventually
from tests.gateway.examples import Clock
from tests.gateway.shared.link.links import linked
from tests.gateway.shared.processes.processes import connecting, no_redis


class Part:
    """Remembers what became of its command."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self.answers: list[Any] = []
        self.misses = 0

    def command(self) -> Command:
        return self._command

    def answered(self, answer: Any) -> None:
        self.answers.append(answer)

    def missed(self) -> None:
        self.misses += 1


class Whole:
    """A process with all the parts there are."""

    def __init__(self, id_: str, link: RedisLink) -> None:
        clock = Clock()
        self.secret = HashSecret.random()
        self.members = Members(Keys(), lambda: MemberRecord(id_), clock=clock)
        self.orders = FleetOrders(link, Keys(), wall_clock=clock)
        self.heartbeat = Heartbeat(link, [SecretAgreement(self.secret, Keys()), self.members, self.orders])


async def test_every_part_gets_its_own_answer(link: RedisLink) -> None:
    """In one exchange, and again with every beat."""
    one, two = Part("ECHO", "one"), Part("ECHO", "two")
    heartbeat = Heartbeat(link, [one, two])

    await heartbeat.beat()
    await heartbeat.beat()

    assert (one.answers, two.answers) == ([b"one"] * 2, [b"two"] * 2)


async def test_it_beats_until_it_is_cancelled(link: RedisLink) -> None:
    """And calls whoever wants to be called after each beat."""
    part, after = Part("ECHO", "x"), []
    heartbeat = Heartbeat(link, [part], interval_s=0.01, after=[lambda: after.append(len(part.answers))])

    async with running(heartbeat.run()):
        await eventually(lambda: len(after) >= 3)

    assert after[:3] == [1, 2, 3]


async def test_a_refused_part_misses_and_the_others_go_on(
    link: RedisLink, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The log tells when it began and when it ended, once each, without what was sent."""
    caplog.set_level(logging.INFO)
    redis_server.client().set("text", "a-secret-value")
    refused, fine = Part("HGET", "text", "field"), Part("ECHO", "x")
    heartbeat = Heartbeat(link, [refused, fine])

    await heartbeat.beat()
    await heartbeat.beat()
    redis_server.client().delete("text")
    await heartbeat.beat()

    assert (refused.misses, refused.answers, len(fine.answers)) == (2, [None], 3)
    lines = [record.getMessage() for record in caplog.records if record.name == "gateway.shared.processes.heartbeat"]
    assert len(lines) == 2
    assert lines[0].startswith("heartbeat: Part: WRONGTYPE")
    assert lines[1] == "heartbeat: Part: answered again"
    assert "a-secret-value" not in caplog.text


async def test_in_a_cluster() -> None:
    """All that goes with a beat lies in one slot, whatever node that is on."""
    with redis_cluster() as nodes:
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        async with linked(url) as first, linked(url) as second:
            one, two = Whole("one", first), Whole("two", second)
            for process in (one, two, one):
                await process.heartbeat.beat()
            await two.orders.give(Order(DRAIN, "a", id="1"))
            await one.heartbeat.beat()

    assert list(one.members.others) == ["two"]
    assert one.secret.value == two.secret.value
    assert [order.target for order in one.orders.book.in_force()] == ["a"]


async def test_without_redis_all_miss() -> None:
    """And nothing is raised: the heartbeat goes on trying."""
    parts = [Part("ECHO", "one"), Part("ECHO", "two")]
    async with no_redis() as link:
        heartbeat = Heartbeat(link, parts, interval_s=0.01)
        async with running(heartbeat.run()):
            await eventually(lambda: all(part.misses >= 3 for part in parts))

    assert [part.answers for part in parts] == [[], []]


async def test_it_comes_back_with_redis() -> None:
    """Killed and started again empty: the next beats are answered."""
    with RedisServer("valkey-9") as server:
        async with connecting(server) as connect:
            part = Part("ECHO", "x")
            async with running(Heartbeat(connect(), [part], interval_s=0.01).run()):
                await eventually(lambda: part.answers)
                server.kill()
                await eventually(lambda: part.misses)
                answered = len(part.answers)
                await asyncio.to_thread(server.start)
                await eventually(lambda: len(part.answers) > answered)
