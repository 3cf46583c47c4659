"""Whatever breaks silently between a prompt and a hit is named, at the right replica, and no request fails for it."""

from __future__ import annotations

import asyncio

import redis

from tests.end_to_end.broken_chain import Case, Fleet, Outcome, Talk, Vigil, fleet, played, silently
from tests.fakes.redis_servers import RedisServer
from tests.fakes.waiting import eventually


async def _events_of_another(there: Fleet) -> None:
    publisher = there.healthy.publisher
    there.broken.silent.lists_events_of = publisher.endpoint, publisher.replay_endpoint


async def _replay_of_another(there: Fleet) -> None:
    there.broken.silent.lists_events_of = there.broken.publisher.endpoint, there.healthy.publisher.replay_endpoint


async def _no_replay(there: Fleet) -> None:
    there.broken.silent.lists_events_of = there.broken.publisher.endpoint, None


async def _stale_replay(there: Fleet) -> None:
    await there.broken.cue({"freeze_replay": True})


async def _restart_unnoticed(there: Fleet) -> None:
    await there.broken.cue({"lose_cache": True})


async def _index_lost(there: Fleet) -> None:
    memory = there.built.gateway.fellowship.memory
    key = next(replica.key for replica in there.built.gateway.pool.replicas if replica.id == "b")
    memory.begin(key, {})


CASES = {
    "another template": Case("template_differs", silently(template_preamble="Be kind. ")),
    "another tokenizer": Case("tokenizer_differs", silently(shifts_tokens=True)),
    "another tokenizer, other counts": Case("tokenizer_differs", silently(splits_tokens=True)),
    "another block size": Case("block_size_differs", silently(claimed_block_size=32)),
    "salt not told": Case("salt_dropped", silently(drops_extra_keys=True), "salted plain salted"),
    "salt ignored": Case("salt_dropped", silently(ignores_salt=True), "salted plain salted"),
    "adapters swapped": Case("lora_differs", silently(lora_of_events="bob"), "ada plain ada"),
    "events off": Case("events_silent", silently(mutes_events=True)),
    "events of another": Case("events_of_another", _events_of_another),
    "no replay": Case("replay_absent", _no_replay),
    "replay of another": Case("replay_stale", _replay_of_another),
    "stale replay": Case("replay_stale", _stale_replay),
    "removals lost": Case("removals_lost", silently(drops_removals=True), capacity_blocks=150),
    "prefix caching off": Case("prefix_caching_off", silently(caches=False)),
    "restart unnoticed": Case("restart_unnoticed", _restart_unnoticed, heals=True),
    "index lost": Case("index_lost", _index_lost, is_checkable=False),
    "details off": Case("details_off", silently(tells_cached_tokens=False)),
    "events late": Case("events_late", silently(delays_events_s=4.0)),
    "metrics hidden": Case("metrics_unknown", silently(hides_metrics=True)),
}
_AT_A_TIME = 10  # gateways and fleets in one process


async def test_every_silent_fault_is_named() -> None:
    """In /status, by its own name, at its own replica; the healthy one is never accused, and nobody's request fails."""
    room = asyncio.Semaphore(_AT_A_TIME)

    async def play(case: Case) -> Outcome:
        async with room:
            return await played(case)

    played_out = dict(zip(CASES, await asyncio.gather(*map(play, CASES.values()))))
    for name, outcome in played_out.items():  # shown if anything fails
        print(f"{name:32} {outcome.after_s:5.1f} s  {outcome.named}  {outcome.others} {outcome.checked}")

    assert [name for name, outcome in played_out.items() if outcome.named is None] == []
    assert [name for name, outcome in played_out.items() if not outcome.is_checked] == []
    assert [name for name, outcome in played_out.items() if outcome.accuses_the_healthy] == []
    assert [outcome.failures for outcome in played_out.values() if outcome.failures] == []


async def test_a_flushed_redis_is_named() -> None:
    """Whatever was in it is written anew, and it is told that this was needed."""
    with RedisServer() as server:

        async def flush(_: Fleet) -> None:
            with redis.Redis(port=server.port) as client:
                client.flushall()

        url = f"redis://127.0.0.1:{server.port}"
        case = Case("index_lost", flush, where="", is_checkable=False, settings={"redis_url": url})
        outcome = await played(case)

    assert outcome.named is not None, outcome
    assert outcome.others == []
    assert outcome.failures == []


async def _reset(there: Fleet) -> None:
    """A cache cannot be reset while a request holds a part of it: again, until nobody does."""
    while not there.broken.cache.reset():  # noqa: ASYNC110 - the replica has no event for that
        await asyncio.sleep(0)


async def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """Evictions, salts, adapters, a restart, resets, removals told twice, a slow replica: at no time anything is told,
    and ``prefixway check`` is content.
    """
    async with fleet(capacity_blocks=220) as there, Vigil(there).kept() as vigil:
        talk = Talk(there.built, "plain salted ada plain")
        async with talk.going_on():
            await talk.more(40)
            await eventually(there.was_checked, timeout_s=60.0)
            await there.healthy.restart()
            await talk.more(60)
            await _reset(there)
            await talk.more(40)
            await there.broken.cue({"silent": {"doubles_removals": True}})
            await talk.more(40)
            await there.broken.cue({"slowdown": 8.0})
            await talk.more(40)
            await there.broken.cue({"slowdown": 1.0})
            evicted = [replica.cache.evictions for replica in (there.healthy, there.broken)]
            await there.broken.restart()
            await talk.more(80)
            checked = await there.checked()

    assert talk.failures == []
    assert vigil.alarms == set()
    assert checked == []
    assert sum(evicted) > 100
