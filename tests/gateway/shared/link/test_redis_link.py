"""Requests wait for Redis no longer than their budget, whatever it does; all heals when it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command, Script, ScriptCall
from tests.fakes.redis_servers import FLAVOURS, RedisServer
from tests.fakes.scripted_server import closed_port
from tests.fakes.tcp_proxy import TcpProxy
from tests.fakes.waiting import eventually
from tests.gateway.shared.link.links import PATIENT_S, WRITE, echo, linked, until_asked, until_given_up, until_run

BUDGET_S = 0.02


async def test_a_lookup_is_answered(link: RedisLink) -> None:
    """Redis need not know the script; bytes pass as they are."""
    script = Script.of("both", "return {KEYS[1], ARGV[1], 7, false}")

    for _ in range(2):
        assert await link.ask(ScriptCall(script, [b"\x00\xff"], [b"\r\n"])) == [b"\x00\xff", b"\r\n", 7, None]
    assert link.stats.lookups == {"ok": 2}


async def test_commands_at_once_are_answered_in_order(link: RedisLink, redis_server: RedisServer) -> None:
    """With refusals in their places, and scripts that Redis learns from them."""
    write = ScriptCall(WRITE, ["l"], [2])
    commands: list[Command] = [("SET", "k", 1), echo("a"), ("LPUSH", "k", 1), write, echo("b"), ("GET", "k")]
    for _ in range(2):
        replies = await link.run_all(commands)

        refused = replies.pop(2)
        assert replies == [b"OK", b"a", b"OK", b"b", b"1"]
        assert isinstance(refused, RedisRefused)
        assert refused.code == "WRONGTYPE"
    assert await link.run_all([]) == []
    assert link.stats.refused == {"WRONGTYPE": 2}

    counts = redis_server.command_counts()
    assert counts["eval"] == 3
    assert "multi" not in counts


async def test_scripts_that_redis_forgot_are_sent_again(link: RedisLink, redis_server: RedisServer) -> None:
    """After SCRIPT FLUSH, a restart or a failover: for lookups, for commands, and for several at once."""
    client = redis_server.client()
    for ask in (link.ask, link.run):
        assert await ask(echo("a")) == b"a"
        client.script_flush()
        assert await ask(echo("b")) == b"b"
    client.script_flush()

    assert await link.run_all([echo("c"), ("GET", "k"), echo("d")]) == [b"c", None, b"d"]


@pytest.mark.parametrize(
    "use",
    [
        lambda link: link.ask(echo()),
        lambda link: link.run(("PING",)),
        lambda link: link.run_all([("PING",)]),
        lambda link: link.publish("c", b"x"),
        lambda link: anext(link.subscribe("c")),
    ],
)
async def test_a_redis_that_is_not_there_shows_in_every_call(use: Callable[[RedisLink], Any]) -> None:
    """And only there: the link is made all the same."""
    async with linked(f"redis://127.0.0.1:{closed_port()}") as link:
        with pytest.raises(RedisUnavailable):
            await use(link)


async def test_after_failures_requests_do_not_ask_until_redis_answers_again(redis_server: RedisServer) -> None:
    """Refusing connections: what runs in the background notices the end of it, and no request has to."""
    async with TcpProxy(redis_server.port) as proxy, linked(f"redis://127.0.0.1:{proxy.port}") as link:
        assert await link.ask(echo("a")) == b"a"
        await proxy.refuse()
        await until_given_up(link, echo())
        await proxy.heal()
        connections = proxy.connections
        assert await until_run(link, ("PING",)) == b"PONG"

        assert link.is_up
        assert await link.ask(echo("b")) == b"b"
        assert link.stats.openings == 1
        assert proxy.connections == connections + 1


async def test_a_redis_that_was_killed_comes_back_empty() -> None:
    """Everything goes on by itself, the scripts too."""
    for flavour in FLAVOURS:
        with RedisServer(flavour) as server:
            async with linked(server.url) as link:
                assert await link.run(ScriptCall(WRITE, ["k"], [1])) == b"OK"
                server.kill()
                await until_given_up(link, echo())
                server.start()

                assert await until_asked(link, echo("again")) == b"again"
                assert await link.run_all([("GET", "k"), ScriptCall(WRITE, ["k"], [2])]) == [None, b"OK"]


@asynccontextmanager
async def slow_link(server: RedisServer) -> AsyncIterator[tuple[TcpProxy, RedisLink]]:
    """One whose lookups come too late, until the proxy heals, so that it has given them up."""
    async with (
        TcpProxy(server.port) as proxy,
        linked(f"redis://127.0.0.1:{proxy.port}", budget_s=BUDGET_S) as link,
    ):
        await until_asked(link, echo())
        proxy.delay(3 * BUDGET_S)
        await until_given_up(link, echo())
        yield proxy, link


async def test_a_slow_redis_is_asked_again_when_it_is_quick(redis_server: RedisServer) -> None:
    """That it answers at all, though too late, does not make requests wait for it."""
    async with slow_link(redis_server) as (proxy, link):
        for _ in range(3):
            assert await link.run(("PING",)) == b"PONG"
            assert not link.is_up
            with pytest.raises(RedisUnavailable, match="not asked"):
                await link.ask(echo())
        await proxy.heal()

        assert await until_asked(link, echo("quick")) == b"quick"
        assert link.is_up
        assert link.stats.lookups["timeout"] >= 3
        assert link.stats.lookups["skipped"] >= 3


async def test_a_redis_that_is_quick_again_is_noticed_where_no_request_asks(redis_server: RedisServer) -> None:
    """What runs in the background is quick in any case: it sends the lookup that was late once more."""
    async with slow_link(redis_server) as (proxy, link):
        skipped = link.stats.lookups["skipped"]
        await proxy.heal()
        while not link.is_up:
            await link.run(("PING",))

        assert link.stats.lookups["skipped"] == skipped


async def test_a_lookup_that_is_late_keeps_its_connection(redis_server: RedisServer) -> None:
    """Where a connection takes longer than the budget there would never be one, if the late were cancelled."""
    took: list[float] = []
    async with TcpProxy(redis_server.port) as proxy:
        options = {"budget_s": BUDGET_S, "observe_lookup_s": took.append}
        async with linked(f"redis://127.0.0.1:{proxy.port}", **options) as link:
            proxy.delay(2 * BUDGET_S)
            with pytest.raises(RedisUnavailable, match="no answer within the budget"):
                await link.ask(echo())
            await eventually(lambda: took)
            await proxy.heal()

            assert await until_asked(link, echo("warm")) == b"warm"
            assert link.stats.connections == 1
            assert took[0] > BUDGET_S


async def test_a_request_that_is_cancelled_leaves_its_lookup_alone(redis_server: RedisServer) -> None:
    """Its client went away: Redis answers all the same, and the connection stays."""
    took: list[float] = []
    async with (
        TcpProxy(redis_server.port) as proxy,
        linked(f"redis://127.0.0.1:{proxy.port}", observe_lookup_s=took.append) as link,
    ):
        proxy.cut()
        request = asyncio.ensure_future(link.ask(echo()))
        await eventually(lambda: proxy.connections)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await proxy.heal()
        await eventually(lambda: took)

        assert await link.ask(echo("next")) == b"next"
        assert link.stats.connections == 1


async def test_a_cut_network_costs_a_request_its_budget_at_most(redis_server: RedisServer) -> None:
    """No FIN, no RST; what runs in the background ends with its time-out, and works again afterwards."""
    async with TcpProxy(redis_server.port) as proxy:
        options = {"budget_s": BUDGET_S, "timeout_s": 0.2}
        async with linked(f"redis://127.0.0.1:{proxy.port}", **options) as link:
            await until_asked(link, echo())
            proxy.cut()
            async with asyncio.timeout(PATIENT_S):
                await until_given_up(link, echo())
                for _ in range(3):
                    with pytest.raises(RedisUnavailable):
                        await link.ask(echo())
                    with pytest.raises(RedisUnavailable):
                        await link.run_all([("PING",), ("SET", "k", 1)])
            await proxy.heal()

            assert await until_asked(link, echo("again")) == b"again"
            assert await link.run(("PING",)) == b"PONG"


async def test_a_redis_that_hangs_and_goes_on() -> None:
    """SIGSTOP: connections are accepted by the kernel, and nothing is answered."""
    with RedisServer() as server:
        async with linked(server.url, budget_s=BUDGET_S, timeout_s=0.2) as link:
            await until_asked(link, echo())
            with server.paused():
                await until_given_up(link, echo())
                with pytest.raises(RedisUnavailable):
                    await link.run(("PING",))

            assert await until_asked(link, echo("again")) == b"again"


async def test_no_more_than_some_lookups_are_under_way(redis_server: RedisServer) -> None:
    """A Redis that hangs must not gather requests, nor connections."""
    async with TcpProxy(redis_server.port) as proxy, linked(f"redis://127.0.0.1:{proxy.port}", timeout_s=0.5) as link:
        proxy.cut()
        answers = await asyncio.gather(*(link.ask(echo()) for _ in range(100)), return_exceptions=True)

        assert all(isinstance(answer, RedisUnavailable) for answer in answers)
        assert link.stats.lookups == {"error": 64, "skipped": 36}
        assert proxy.connections <= 64


async def test_every_lookup_gets_its_own_answer(redis_server: RedisServer) -> None:
    """Many at once, of which some are late and some are cancelled."""
    async with TcpProxy(redis_server.port) as proxy, linked(f"redis://127.0.0.1:{proxy.port}", budget_s=0.01) as link:

        async def asked(number: int) -> bool:
            try:
                async with asyncio.timeout(0.005 if number % 7 == 0 else PATIENT_S):
                    return bool(await link.ask(echo(str(number))) == b"%d" % number)
            except (RedisUnavailable, TimeoutError):
                return True

        for round_ in range(10):
            proxy.delay(0.002 * (round_ % 4))
            assert all(await asyncio.gather(*map(asked, range(round_ * 50, round_ * 50 + 50))))
        await proxy.heal()

        assert await until_asked(link, echo("own")) == b"own"


async def test_a_full_redis_refuses_and_is_still_asked(link: RedisLink, redis_server: RedisServer) -> None:
    """OOM is an answer: for commands, and for scripts that write; lookups go on."""
    write = ScriptCall(WRITE, ["k"], ["v"])
    redis_server.client().config_set("maxmemory", 1)
    try:
        refused = await link.run_all([("SET", "k", "v"), write, write])

        assert [reply.code for reply in refused] == ["OOM"] * 3
        with pytest.raises(RedisRefused, match="OOM"):
            await link.run(write)
        assert link.is_up
        assert await link.ask(echo("still")) == b"still"
    finally:
        redis_server.client().config_set("maxmemory", 0)


async def test_a_refused_lookup_says_so(link: RedisLink) -> None:
    """It is the index's affair, and no sign of a Redis that is gone."""
    for _ in range(5):
        with pytest.raises(RedisRefused) as caught:
            await link.ask(ScriptCall(Script.of("odd", "return redis.error_reply('ODD it is')"), ["k"]))

    assert caught.value.code == "ODD"
    assert link.is_up
    assert link.stats.lookups == {"error": 5}
    assert link.stats.refused == {"ODD": 5}


async def test_a_wrong_password_does_not_make_every_request_log_in() -> None:
    """Each attempt would cost a connection."""
    with RedisServer(config={"requirepass": "right"}) as server:
        async with linked(f"redis://:wrong@127.0.0.1:{server.port}") as link:
            for _ in range(3):
                with pytest.raises(RedisRefused, match="WRONGPASS"):
                    await link.ask(echo())
            with pytest.raises(RedisUnavailable):
                await link.ask(echo())

            assert not link.is_up


async def test_a_redis_that_refuses_everything_stays_given_up_where_no_request_asks() -> None:
    """There is no lookup to try it with: that nothing was asked is no good answer."""
    with RedisServer(config={"requirepass": "right"}) as server:
        async with linked(f"redis://127.0.0.1:{server.port}") as link:
            for _ in range(20):
                with pytest.raises(RedisRefused, match="NOAUTH"):
                    await link.run(("PING",))
                await asyncio.sleep(0)  # for what was started beside it

            assert (link.is_up, link.stats.openings) == (False, 1)


async def test_the_breaker_is_told_of_once_and_without_secrets(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning with the reason, one line when it is over, though it opens again and again."""
    caplog.set_level("INFO", "gateway")
    async with (
        TcpProxy(redis_server.port) as proxy,
        linked(f"redis://alice:sesame@127.0.0.1:{proxy.port}", clock=lambda: 0.0) as link,
    ):
        redis_server.client().acl_setuser("alice", enabled=True, passwords="+sesame", commands=["+@all"], keys="*")
        for _ in range(3):
            await proxy.refuse()
            await until_given_up(link, echo("door"))
            await proxy.heal()
            await until_run(link, ("PING",))

    records = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert link.stats.openings == 3
    assert [level for level, _ in records] == ["WARNING", "INFO"]
    assert records[0][1].startswith(f"redis redis://alice@127.0.0.1:{proxy.port}: requests go on without it: ")
    assert "sesame" not in caplog.text
    assert "door" not in caplog.text


async def test_a_closed_link_answers_nothing_and_holds_nobody(redis_server: RedisServer) -> None:
    """Also whoever was waiting."""
    async with TcpProxy(redis_server.port) as proxy, linked(f"redis://127.0.0.1:{proxy.port}") as link:
        proxy.cut()
        request = asyncio.ensure_future(link.ask(echo()))
        await eventually(lambda: proxy.connections)
        await link.close()
        with pytest.raises(RedisUnavailable, match="closed"):
            await request
        with pytest.raises(RedisUnavailable, match="closed"):
            await link.ask(echo())
        with pytest.raises(RedisUnavailable, match="closed"):
            await link.run(("PING",))


async def test_a_late_event_loop_is_not_taken_for_a_late_redis(redis_server: RedisServer) -> None:
    """An answer that is there when the loop turns again counts, and one that is not says nothing of Redis."""
    answered = 0
    async with linked(redis_server.url, budget_s=BUDGET_S) as link:
        await until_asked(link, echo())
        for turns in range(10):
            request = asyncio.ensure_future(link.ask(echo()))
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(3 * BUDGET_S)  # noqa: ASYNC251 - holds the loop, as a long prompt might
            try:
                await request
            except RedisUnavailable:
                assert link.is_up
            else:
                answered += 1

        assert link.is_up
    assert answered > 0
