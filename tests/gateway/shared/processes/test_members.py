"""Members: everybody sees everybody, the dead vanish, and an outage of Redis makes nobody dead."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec
import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.shared.index.knowledge import COMPLETE, NOTHING
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Script, ScriptCall
from gateway.shared.processes.member_record import MemberRecord, digest, replica_number
from gateway.shared.processes.members import Members
from tests.fakes.redis_servers import RedisServer
from tests.gateway.examples import Clock
from tests.gateway.shared.processes.processes import Connect, beat, connecting, no_redis

KEYS = Keys()
A = ReplicaKey("m", "a")
REPLICAS = [ReplicaKey("m", f"server-{number}") for number in range(200)]


class Process:
    """One member, whose record can be changed."""

    def __init__(self, link: RedisLink, id_: str, *, dead_after_s: float = 3.0, **told: object) -> None:
        self.link = link
        self.record = msgspec.structs.replace(MemberRecord(id_), **told)
        self.clock = Clock()
        self.members = Members(KEYS, lambda: self.record, clock=self.clock, dead_after_s=dead_after_s)

    def tell(self, **told: object) -> None:
        self.record = msgspec.structs.replace(self.record, **told)

    async def beat(self) -> None:
        await beat(self.link, self.members)

    @property
    def others(self) -> list[str]:
        return sorted(self.members.others)


async def _beat(*processes: Process) -> None:
    for process in processes:
        await process.beat()


@pytest.fixture
async def connect(redis_server: RedisServer) -> AsyncIterator[Connect]:
    async with connecting(redis_server) as connect:
        yield connect


async def test_everybody_sees_the_others(connect: Connect) -> None:
    """Each with its record as of its last beat; listeners hear of what changed, and of nothing else."""
    one, two = Process(connect(), "one", strategy="kv_aware"), Process(connect(), "two")
    changes: list[list[str]] = []
    one.members.listen(lambda: changes.append(one.others))

    await _beat(one, two, one, one)
    two.tell(strategy="prefix_aware", replicas={1: 2})
    await _beat(two, one, one)

    assert (one.others, two.others) == (["two"], ["one"])
    assert one.members.others["two"] == two.record
    assert two.members.others["one"].strategy == "kv_aware"
    assert changes == [["two"], ["two"]]


async def test_a_record_that_is_known_is_not_sent_again(connect: Connect) -> None:
    """A fleet of many replicas reads what changed, twice a second, not everything."""
    one, two = Process(connect(), "one"), Process(connect(), "two")
    await _beat(two, one)

    _, *row = await one.link.run(one.members.command())
    two.tell(name="renamed")
    await two.beat()
    _, *changed = await one.link.run(one.members.command())

    assert row[0] == changed[0] == b"two"
    assert row[2] == b""
    assert MemberRecord.decode(changed[2]) == two.record


async def test_who_is_silent_is_gone(connect: Connect) -> None:
    """By Redis's clock; whoever is back, is back."""
    one, two = (Process(connect(), id_, dead_after_s=0.1) for id_ in ("one", "two"))
    await _beat(two, one)
    there = one.others

    while one.others:
        await one.beat()
        one.clock.now += 1.0
    await _beat(two, one)

    assert there == one.others == ["two"]


async def test_who_leaves_is_gone_at_once(connect: Connect, redis_server: RedisServer) -> None:
    """Nothing of it stays; and without Redis, leaving fails silently."""
    one, two = Process(connect(), "one"), Process(connect(), "two")
    await _beat(two, one)

    await two.members.leave(two.link)
    await one.beat()
    async with no_redis() as link:
        await two.members.leave(link)

    assert one.others == []
    assert [redis_server.client().hlen(KEYS.fleet(name)) for name in ("members", "records")] == [1, 1]


async def test_a_flush_makes_nobody_dead(connect: Connect, redis_server: RedisServer) -> None:
    """The first to beat still believes in the others; who does not come back is gone a moment later."""
    one, two, three = (Process(connect(), id_) for id_ in ("one", "two", "three"))
    await _beat(one, two, three, one)
    redis_server.client().flushall()

    await one.beat()
    believed = one.others
    await _beat(two, one)
    one.clock.now += 1.5
    await one.beat()

    assert believed == ["three", "two"]
    assert one.others == ["two"]


async def test_an_outage_makes_nobody_dead(connect: Connect, redis_server: RedisServer) -> None:
    """All records are old when Redis is back, and the first to beat removes them: they are believed in all the same."""
    one, two, client = Process(connect(), "one"), Process(connect(), "two"), redis_server.client()
    await _beat(two, one)
    for process in (one, two):
        client.hset(KEYS.fleet("members"), process.record.process_id, f"1000 {digest(process.record.encode())}")

    await one.beat()
    believed = one.others
    await _beat(two, one)
    one.clock.now += 1.5
    await _beat(two, one)

    assert believed == one.others == ["two"]


async def test_a_beat_from_the_future_counts_as_silence(connect: Connect, redis_server: RedisServer) -> None:
    """Redis's clock was set back: a dead process must not seem alive for as long."""
    one = Process(connect(), "one")
    redis_server.client().hset(KEYS.fleet("members"), "two", f"{round(time.time() * 1000) + 60_000} 00")
    redis_server.client().hset(KEYS.fleet("members"), "three", "rubbish")

    await one.beat()

    assert one.others == []
    assert redis_server.client().hkeys(KEYS.fleet("members")) == [b"one"]


async def test_records_of_newer_processes(connect: Connect) -> None:
    """What can be read is; what cannot is counted once, and costs nobody else anything."""
    one, two = Process(connect(), "one"), Process(connect(), "two")
    for id_, record in (("newer", {"process_id": "newer", "mood": 1}), ("strange", ["x"])):
        data = msgspec.msgpack.encode(record)
        keys = (KEYS.fleet("members"), KEYS.fleet("records"))
        await one.link.run(ScriptCall(Script.load("members"), keys, (id_, "1", data, 3000, 60)))

    await _beat(two, one, one)

    assert one.others == ["newer", "two"]
    assert one.members.unreadable == 1


async def test_whether_the_others_are_known(connect: Connect) -> None:
    """Only by a beat that was answered lately; what they told stays."""
    one, two = Process(connect(), "one"), Process(connect(), "two")
    before = one.members.known
    await _beat(two, one)
    one.clock.now += 2.9
    in_time = one.members.known
    one.clock.now += 0.2
    one.members.missed()

    assert (before, in_time, one.members.known) == (False, True, False)
    assert repr(one.members) == "<Members 2 known=False>"
    assert one.others == ["two"]


async def test_keys_do_not_outlive_the_fleet(connect: Connect, redis_server: RedisServer) -> None:
    """Both have a life, which every beat renews."""
    one = Process(connect(), "one")
    await one.beat()

    client = redis_server.client()
    keys = sorted(client.keys())
    assert keys == [KEYS.fleet("members").encode(), KEYS.fleet("records").encode()]
    assert all(0 < client.ttl(key) <= 60 for key in keys)


class _Fleet(NamedTuple):
    processes: Sequence[Process]

    async def settle(self) -> None:
        await _beat(*self.processes, *self.processes)

    def followers(self, key: ReplicaKey) -> list[str]:
        """As all of them say, each alike."""
        (agreed,) = {tuple(process.members.followers(key)) for process in self.processes}
        return list(agreed)


async def test_rivals_are_the_best_of_the_others(connect: Connect) -> None:
    """-1 where none of them can follow the replica; one's own knowledge is nobody's rival."""
    number = replica_number(A)
    one = Process(connect(), "one", replicas={number: COMPLETE})
    two = Process(connect(), "two", replicas={number: NOTHING})
    three = Process(connect(), "three", replicas={number: COMPLETE - 7})
    alone = one.members.rivals(A)
    await _beat(two, one)
    nothing = one.members.rivals(A)
    await _beat(three, one, two)

    assert (alone, nothing, one.members.rivals(A), two.members.rivals(A)) == (-1, 0, COMPLETE - 7, COMPLETE)
    assert one.members.rivals(ReplicaKey("m", "b")) == -1
    assert sorted(one.members.can_follow(A)) == ["one", "three", "two"]
    assert one.members.can_follow(ReplicaKey("m", "b")) == []


async def test_all_choose_the_same_followers(connect: Connect) -> None:
    """Two for each replica, evenly, and only among those that can."""
    able = {replica_number(key): NOTHING for key in REPLICAS}
    processes = [Process(connect(), f"p{number}", replicas=able) for number in range(4)]
    fleet = _Fleet([*processes, Process(connect(), "reader")])
    await fleet.settle()

    chosen = {key: fleet.followers(key) for key in REPLICAS}
    share = Counter(id_ for ids in chosen.values() for id_ in ids)

    assert all(len(set(ids)) == 2 for ids in chosen.values())
    assert set(share) == {"p0", "p1", "p2", "p3"}
    assert min(share.values()) > 60  # 100 each, if it were exact
    assert fleet.processes[0].members.followers(REPLICAS[0], count=9) == [
        *chosen[REPLICAS[0]],
        *fleet.processes[0].members.followers(REPLICAS[0], count=4)[2:],
    ]


async def test_a_departure_moves_only_what_it_held(connect: Connect) -> None:
    """Whoever followed a replica follows it still; one that knows fewer processes never follows less."""
    able = {replica_number(key): NOTHING for key in REPLICAS}
    processes = [Process(connect(), f"p{number}", replicas=able) for number in range(4)]
    await _Fleet(processes).settle()
    before = {key: set(processes[0].members.followers(key)) for key in REPLICAS}

    await processes[3].members.leave(processes[3].link)
    rest = _Fleet(processes[:3])
    await rest.settle()

    assert all(before[key] - {"p3"} <= set(rest.followers(key)) for key in REPLICAS)


async def test_our_own_record_can_be_taken_anew(connect: Connect) -> None:
    """Without waiting for the next beat."""
    one = Process(connect(), "one")
    one.tell(replicas={replica_number(A): 0})
    before = one.members.can_follow(A)
    one.members.refresh()

    assert (before, one.members.can_follow(A)) == ([], ["one"])


async def test_only_equals_that_stay_can_stand_in(redis_server: RedisServer) -> None:
    """Who writes keys of another schema, or is about to end, is known, and asked, but nothing is left to it."""
    async with connecting(redis_server) as connect:
        number = replica_number(A)
        one = Process(connect(), "one", replicas={number: NOTHING})
        newer = Process(connect(), "newer", replicas={number: COMPLETE}, schema=2)
        leaving = Process(connect(), "leaving", replicas={number: COMPLETE - 1}, leaving=True)
        await _beat(newer, leaving, one)

        assert (one.members.rivals(A), one.members.best_known(A)) == (-1, COMPLETE)
        assert one.members.followers(A) == ["one"]
        assert "leaving" not in leaving.members.can_follow(A)


async def test_one_gateway_is_chosen_for_what_only_one_is_to_do(connect: Connect) -> None:
    """The same one in everybody's view, an indexer never, and each has its share."""
    one, two = Process(connect(), "one"), Process(connect(), "two")
    indexer = Process(connect(), "three", kind="indexer")
    await _beat(one, two, indexer, one, two)

    chosen = [one.members.first_gateway(key) for key in REPLICAS]
    assert chosen == [two.members.first_gateway(key) for key in REPLICAS]
    assert set(chosen) == {"one", "two"}
