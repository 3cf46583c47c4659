"""The writer where something happens while it awaits Redis, or where there is more to write than one exchange can."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.redis_url import RedisTarget
from gateway.shared.link.redis_errors import RedisRefused, RedisUnavailable
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command, ScriptCall
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.redis_pair import BLOCKS, A, B, RedisPair, tokens


class TellingLink(RedisLink):
    """Tells of what was carried out, before anybody else learns of it. What that raises comes in the answer's place."""

    def __init__(self, url: str) -> None:
        super().__init__(RedisTarget.parse(url), clock=time.monotonic, budget_s=20.0, timeout_s=20.0)
        self.carried_out: Callable[[Sequence[Command]], None] = lambda _: None

    async def run_all(self, commands: Sequence[Command]) -> list[Any]:
        answers = await super().run_all(commands)
        self.carried_out(commands)
        return answers


@pytest.fixture
async def telling(redis_server: RedisServer) -> AsyncIterator[TellingLink]:
    link = TellingLink(redis_server.url)
    yield link
    await link.close()


def scripts(commands: Sequence[Command]) -> list[str]:
    return [command.script.name for command in commands if isinstance(command, ScriptCall)]


async def test_a_large_loss_is_made_good_though_locks_are_renewed_meanwhile(
    link: RedisLink, redis_server: RedisServer
) -> None:
    """The epoch in force stays what it is until the new one is complete: that is no other loss."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: [*BLOCKS, *range(10_000, 210_000)]})
    await pair.settle()
    await tokens(pair)
    entry = pair.reader.entry(A)
    assert entry is not None
    redis_server.client().srem(pair.keys.blocks(A, entry.epoch, Tier.L0), BLOCKS[50].to_bytes(8, "little"))

    for _ in range(12):
        pair.writer.renew_now()
        await pair.writer.round()

    assert pair.writer.stats.epochs == {"takeover": 1, "lost": 1}
    assert await tokens(pair) == 100 * 16


async def test_locks_are_kept_of_what_waits_for_its_turn(telling: TellingLink) -> None:
    """Each renewal tells of all that are to be opened, also of those whose snapshot is not begun."""
    pair = RedisPair(telling)
    pair.begin(A, {Tier.L0: range(200_000)})
    pair.begin(B, {Tier.L0: BLOCKS})
    for key in (A, B):
        pair.writer.claim(key)
    rounds: list[int] = []

    def hurry(commands: Sequence[Command]) -> None:
        if "renew" in scripts(commands) and len(commands) > len(scripts(commands)):
            pair.writer.renew_now()  # a slow server: after each piece it is time to
        elif "renew" in scripts(commands):
            rounds.append(len(commands))

    telling.carried_out = hurry
    await pair.settle()

    assert rounds[0] == 2
    assert (pair.writer.writes(A), pair.writer.writes(B)) == (True, True)
    assert pair.writer.stats.epochs == {"takeover": 2}


async def test_a_replica_that_leaves_while_another_is_pushed(telling: TellingLink, redis_server: RedisServer) -> None:
    """The other one is written all the same, and of this one nothing stays."""
    pair = RedisPair(telling)
    for key in (A, B):
        pair.begin(key, {Tier.L0: BLOCKS})
        pair.writer.claim(key)

    def leave(commands: Sequence[Command]) -> None:
        if "renew" in scripts(commands) and B in pair.holdings.held:
            pair.drop(B)

    telling.carried_out = leave
    await pair.settle()

    assert await tokens(pair) == 100 * 16
    assert (await tokens(pair, B), redis_server.client().exists(pair.keys.writer(B))) == (None, 0)


async def test_an_engine_that_restarts_while_another_is_pushed(telling: TellingLink) -> None:
    """What the old process held is never told of any more."""
    pair = RedisPair(telling)
    for key in (A, B):
        pair.begin(key, {Tier.L0: BLOCKS})
        pair.writer.claim(key)

    def restart(commands: Sequence[Command]) -> None:
        if "renew" in scripts(commands) and B in pair.holdings.held:
            del pair.holdings.held[B]
            pair.begin(B._replace(incarnation=1), {})

    telling.carried_out = restart
    await pair.writer.round()
    assert await tokens(pair, B) in (None, 0)
    await pair.settle()
    assert await tokens(pair, B) == 0


async def test_a_registration_whose_answer_was_lost(telling: TellingLink) -> None:
    """It is made again; what it told of is not taken for the epoch before."""
    pair = RedisPair(telling)
    pair.begin(A, {Tier.L0: BLOCKS})
    lost: list[str] = []

    def lose(commands: Sequence[Command]) -> None:
        if "register" in scripts(commands) and not lost:
            lost.append("register")
            raise RedisUnavailable("no answer in time")

    telling.carried_out = lose
    with pytest.raises(RedisUnavailable):
        await pair.settle()
    await pair.settle()

    assert await tokens(pair) == 100 * 16


async def test_what_came_together_is_written_in_exchanges_that_end(telling: TellingLink) -> None:
    """Each has the time-out: all of it at once would never be through. Nor is all of it written in one round."""
    pair = RedisPair(telling)
    keys = [ReplicaKey("model", f"r{number}") for number in range(8)]
    for key in keys:
        pair.begin(key, {Tier.L0: BLOCKS})
    await pair.settle()
    for number, key in enumerate(keys):
        first = (1 + number) << 32
        pair.apply(key, Tier.L0, range(first, first + 10_000), BLOCKS[50:])
    sent: list[int] = []
    telling.carried_out = lambda commands: sent.append(sum(map(len, commands)))

    await pair.writer.round()
    assert pair.writer.is_busy
    await pair.settle()

    assert max(sent) < 20_000
    assert sum(sent) > 80_000
    assert [await tokens(pair, key) for key in keys] == [50 * 16] * 8


async def test_more_changes_than_a_snapshot_has_blocks_are_not_kept(link: RedisLink) -> None:
    """As in a long outage: what came and went would pile up. It is written anew instead."""
    pair = RedisPair(link)
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    for first in range(0, 20_000, 100):
        pair.apply(A, Tier.L0, range(10_000 + first, 10_100 + first), range(9_900 + first, 10_000 + first))

    await pair.settle()

    assert pair.writer.stats.epochs == {"takeover": 1, "backlog": 1}
    assert pair.writer.stats.blocks_written == 0
    assert await tokens(pair) == 100 * 16


async def test_a_restart_while_redis_is_full_leaves_no_ghosts(link: RedisLink, redis_server: RedisServer) -> None:
    """No new epoch can be opened then; the old one is void all the same."""
    pair, client = RedisPair(link), redis_server.client()
    pair.begin(A, {Tier.L0: BLOCKS})
    await pair.settle()
    client.config_set("maxmemory", "1mb")
    try:
        del pair.holdings.held[A]
        pair.begin(A._replace(incarnation=1), {})
        with pytest.raises(RedisRefused, match="OOM"):
            await pair.writer.round()
        assert await tokens(pair) is None
    finally:
        client.config_set("maxmemory", "0")
    await pair.settle()
    assert await tokens(pair) == 0


async def test_a_replica_that_leaves_while_its_loss_is_found_out(
    telling: TellingLink, redis_server: RedisServer
) -> None:
    """It is not written anew; and of the others nothing is left undone."""
    pair, client = RedisPair(telling), redis_server.client()
    for key in (A, B):
        pair.begin(key, {Tier.L0: BLOCKS})
    await pair.settle()
    await tokens(pair)
    entry = pair.reader.entry(B)
    assert entry is not None
    client.set(pair.keys.blocks(B, entry.epoch, Tier.L0), "no set")

    def leave(_: Sequence[Command]) -> None:
        if B in pair.holdings.held:
            pair.drop(B)

    for key in (B, A):
        pair.apply(key, Tier.L0, [1], ())
    telling.carried_out = leave
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        await pair.writer.round()
    await pair.settle()

    assert (await tokens(pair), await tokens(pair, B)) == (100 * 16, None)
    assert pair.writer.stats.epochs == {"takeover": 2}
