"""Who follows a replica, who writes, and how a newcomer learns what it could not see."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.shared.index.knowledge import COMPLETE, UNSURE
from gateway.shared.index.succession import FOLLOWERS
from gateway.shared.processes.member_record import MemberRecord, replica_number
from gateway.shared.processes.members import Members
from loadtest.replica.publisher import EventPublisher
from tests.fakes.redis_servers import RedisServer
from tests.gateway.shared.index.succession_house import KEYS, A, Engine, House, turns, until
from tests.gateway.shared.link.links import PATIENT_S

SHORT = 3  # batches that the replay holds


@pytest.fixture
async def house(redis_server: RedisServer) -> AsyncIterator[House]:
    async with EventPublisher(buffer_steps=SHORT) as publisher, AsyncExitStack() as stack:
        yield House(redis_server, Engine(publisher), stack)


def chosen(ids: Sequence[str]) -> list[str]:
    """Which of these processes follow the replica, best first; then the others."""
    able = {replica_number(A): 0}
    told = Members(KEYS, lambda: MemberRecord(ids[0], replicas=able), clock=time.monotonic)
    told.others = {id_: MemberRecord(id_, replicas=able) for id_ in ids[1:]}
    return told.followers(A, len(ids))


IDS = chosen(["one", "two", "three", "four"])  # the first two follow


async def test_two_follow_and_one_of_them_writes(house: House) -> None:
    """The others only read. Everybody agrees on who is who."""
    processes = [await house.join(id_) for id_ in IDS]
    house.engine.serve(SHORT)

    await until(lambda: [process.follows for process in processes] == [True] * FOLLOWERS + [False] * 2, *processes)
    await until(lambda: all(process.is_true() for process in processes[:FOLLOWERS]) and house.in_redis(), *processes)
    await until(lambda: any(process.writes for process in processes[:FOLLOWERS]), *processes)

    assert sum(process.writes for process in processes) == 1
    assert [process.succession.knows_best(A) for process in processes] == [True, True, False, False]
    assert processes[3].memory.block_owners() == 0


async def test_when_the_writer_dies_the_other_one_writes_all_it_knows(house: House) -> None:
    """More than any replay holds; and another one begins to follow."""
    processes = [await house.join(id_) for id_ in IDS[:3]]
    await until(lambda: [process.follows for process in processes] == [True, True, False], *processes)
    house.engine.serve(10)
    await until(lambda: all(process.is_true() for process in processes[:2]) and house.in_redis(), *processes)
    (writer,) = (process for process in processes if process.writes)

    await house.kill(writer)
    rest = [process for process in processes if process is not writer]
    assert house.in_redis()
    house.engine.serve(10)
    await until(lambda: any(process.writes for process in rest) and house.in_redis(), *rest)
    await until(lambda: all(process.follows for process in rest), *rest)

    await until(lambda: all(process.is_true() for process in rest), *rest)
    assert [process.knowledge for process in rest] == [COMPLETE] * 2


async def test_who_writes_and_is_not_one_of_the_two_gives_the_lock_back(house: House) -> None:
    """Once both know all that it does; and follows no more. It was there first, alone."""
    spare = await house.join(IDS[3])
    await until(lambda: spare.knowledge == COMPLETE, spare)
    house.engine.serve(10)
    await until(lambda: spare.is_true() and house.in_redis(), spare)
    assert spare.writes

    others = [await house.join(id_) for id_ in IDS[:2]]
    await until(lambda: not spare.follows, spare, *others)

    await until(lambda: any(process.writes for process in others), spare, *others)
    assert [process.knowledge for process in others] == [COMPLETE] * 2
    assert all(process.is_true() for process in others)
    assert house.in_redis()
    assert not spare.succession.knows_best(A)


async def test_a_newcomer_that_came_too_late_takes_over_what_the_writer_knows(house: House) -> None:
    """It asks, goes on from there, and can stand in for the writer then."""
    first = await house.join(IDS[0])
    await until(lambda: first.knowledge == COMPLETE, first)
    house.engine.serve(20)
    await until(lambda: first.is_true() and house.in_redis(), first)
    second = await house.join(IDS[1])
    house.engine.serve(1)

    await until(lambda: second.knowledge == COMPLETE, first, second)

    assert (first.writes, second.writes) == (True, False)
    assert second.is_true()
    await house.kill(first)
    await until(lambda: second.writes and house.in_redis(), second)


async def test_of_two_that_know_a_part_the_one_that_began_earlier_is_worth_more(house: House) -> None:
    """It writes, and the other one learns the rest of it. Nobody knows all: nobody claims to."""
    house.engine.serve(20)
    first = await house.join(IDS[0])
    await until(lambda: first.writes and house.in_redis() is not None, first)
    since = first.stats.since
    house.engine.serve(20)
    await until(lambda: first.stats.last_sequence == first.last_sequence, first)
    second = await house.join(IDS[1])
    await until(lambda: second.stats.since is not None and second.knowledge > UNSURE, second)
    assert UNSURE < second.knowledge < first.knowledge < COMPLETE
    assert second.succession.knows_best(A) is False

    await until(lambda: second.knowledge == first.knowledge, first, second)

    assert (first.stats.since, second.stats.since) == (since, since)
    assert (first.writes, second.writes) == (True, False)
    await until(lambda: second.stats.last_sequence == second.last_sequence, first, second)
    assert set(second.events.indexer.owned(A)[Tier.L0]) == set(first.events.indexer.owned(A)[Tier.L0])


async def test_who_writes_and_knows_less_gives_the_lock_back(house: House) -> None:
    """As after an outage in which the better one could not renew it."""
    better = await house.join(IDS[0])
    await until(lambda: better.knowledge == COMPLETE and not better.writer.is_busy, better)
    house.engine.serve(20)
    await until(better.is_true, better)
    lesser = await house.join(IDS[1])
    better.writer.release(A)
    await better.writer.round()
    await better.members.leave(better.link)  # and it is not heard for a while
    await until(lambda: lesser.writes, lesser)
    assert lesser.knowledge < COMPLETE

    await until(lambda: better.writes and house.in_redis(), lesser, better)

    assert not lesser.writes
    await until(lambda: lesser.knowledge == COMPLETE, lesser, better)
    assert better.writes


async def test_a_newcomer_does_not_write_before_it_knows_that_nobody_knows_more(house: House) -> None:
    """A part of a history is written only after some rounds; all of it at once."""
    house.engine.serve(20)
    late = await house.join("late")
    await until(lambda: late.knowledge > UNSURE)

    await turns(3, late)
    assert not late.writes

    await until(lambda: late.writes, late)


async def test_after_a_planned_stop_a_lone_process_goes_on_from_what_was_left(house: House) -> None:
    """The only one there is, restarted: what it knew lies in Redis. Readers saw the entries all along."""
    old = await house.join("old")
    await until(lambda: old.knowledge == COMPLETE, old)
    house.engine.serve(20)
    await until(lambda: old.is_true() and house.in_redis(), old)

    await house.leave(old)
    assert house.in_redis()
    assert house.client.exists(KEYS.writer(A)) == 0
    new = await house.join("new")
    await until(lambda: new.writes and new.knowledge == COMPLETE, new)

    assert new.is_true()
    house.engine.serve(2)
    await until(lambda: new.is_true() and house.in_redis(), new)


async def test_what_another_one_knows_as_well_is_not_left_behind(house: House) -> None:
    """It costs, and nobody needs it."""
    first, second = await house.join(IDS[0]), await house.join(IDS[1])
    house.engine.serve(2)
    await until(lambda: first.is_true() and second.is_true() and first.knowledge == second.knowledge, first, second)
    await turns(2, first, second)
    (writer,) = (process for process in (first, second) if process.writes)

    await house.leave(writer)

    assert house.client.exists(KEYS.handover(A)) == 0


async def test_a_state_that_was_meant_for_another_is_not_used(house: House) -> None:
    """It lies there for a while, and the replay does not reach back to it any more: a newer one is asked for."""
    first = await house.join(IDS[0])
    await until(lambda: first.knowledge == COMPLETE, first)
    house.engine.serve(20)
    await until(first.is_true, first)
    second = await house.join(IDS[1])
    await until(lambda: second.knowledge == COMPLETE, first, second)
    await house.kill(second)
    stale = house.client.lindex(KEYS.handover(A), 0)
    assert stale is not None
    house.engine.serve(20)
    await until(first.is_true, first)

    third = await house.join(IDS[2])
    await until(lambda: third.knowledge == COMPLETE, first, third)

    assert house.client.lindex(KEYS.handover(A), 0) not in (stale, None)
    assert third.stats.lost.total() == 0
    assert third.is_true()


async def test_a_state_under_another_secret_is_refused_and_not_asked_for_again_and_again(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Its hashes mean nothing here: what is known stays. The writer is not kept busy with what nobody can use."""
    first = await house.join(IDS[0], "one secret")
    await until(lambda: first.knowledge == COMPLETE, first)
    house.engine.serve(20)
    await until(first.is_true, first)
    stranger = await house.join(IDS[1], "another secret")

    await until(lambda: "another hash secret" in caplog.text, first, stranger)
    stamp = house.client.lindex(KEYS.handover(A), 0)
    house.engine.serve(1)
    await turns(20, first, stranger)

    assert UNSURE < stranger.knowledge < COMPLETE
    assert stranger.stats.last_sequence == stranger.last_sequence
    assert house.client.lindex(KEYS.handover(A), 0) == stamp
    assert caplog.text.count("another hash secret") == 1
    assert first.writes


async def test_garbage_in_a_states_place_is_overcome(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else's list is refused, and something that is no list does not hide that there is nothing."""
    first = await house.join(IDS[0])
    await until(lambda: first.knowledge == COMPLETE, first)
    house.engine.serve(20)
    await until(first.is_true, first)
    house.client.set(KEYS.handover(A), "no list")
    second = await house.join(IDS[1])
    await until(lambda: second.knowledge == COMPLETE, first, second)
    await house.kill(second)
    await house.kill(first)

    house.client.delete(KEYS.handover(A))
    house.client.rpush(KEYS.handover(A), "stamp", "rubbish")
    third = await house.join(IDS[2])
    await until(lambda: "cannot be used" in caplog.text and third.writes, third)
    assert third.stats.last_sequence == third.last_sequence


async def test_without_a_replay_port_nobody_asks(redis_server: RedisServer) -> None:
    """No state could be verified. What was seen is what is known."""
    async with EventPublisher(replay_endpoint=None) as publisher, AsyncExitStack() as stack:
        house = House(redis_server, Engine(publisher), stack)
        first = await house.join(IDS[0])
        await until(lambda: first.stats.state is FeedState.FRESH and publisher.has_subscriber(), first)
        house.engine.serve(10)
        await until(lambda: first.stats.last_sequence == first.last_sequence, first)
        second = await house.join(IDS[1])
        await until(lambda: second.stats.state is FeedState.FRESH, first, second)
        house.engine.serve(5)
        await until(lambda: second.stats.last_sequence == second.last_sequence, first, second)
        await turns(10, first, second)

        assert second.knowledge < first.knowledge
        assert first.writes
        assert not house.client.exists(KEYS.wanted(A), KEYS.handover(A))
        assert "lindex" not in redis_server.command_counts()


async def test_without_redis_everybody_follows_what_it_can(house: House) -> None:
    """Nobody knows of the others: each knows all by itself, and matches it in memory."""
    processes = [await house.join(id_) for id_ in IDS[:3]]
    await until(lambda: [process.follows for process in processes] == [True, True, False], *processes)
    house.engine.serve(SHORT)
    reader = processes[2]

    reader.clock.now += PATIENT_S + 1  # nobody was heard of for so long
    await reader.succession.round()
    await until(reader.is_true)

    assert reader.succession.knows_best(A)
    await until(lambda: not reader.follows, *processes)
