"""What is to be written of one replica, as commands, and what their answers must be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.written_replica import Written, WrittenReplica, is_intact, pieces
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_link import RedisLink
from gateway.shared.link.script import Command
from tests.fakes.redis_servers import RedisServer

KEYS = Keys("test")
A = ReplicaKey("m", "a")
EPOCH = 7


class Written7:
    """A replica in epoch 7, and a server that has what was written of it."""

    def __init__(self, server: RedisServer, link: RedisLink) -> None:
        self.replica = WrittenReplica(A)
        self.client = server.client()
        self._link = link

    async def open(self, owned: dict[Tier, list[int]]) -> None:
        for commands in self.replica.snapshot(KEYS, EPOCH, owned):
            await self._run(commands)
        self.replica.epoch = EPOCH

    async def write(self, others: Iterable[str] = ()) -> list[tuple[Written, int]]:
        """Everything pending; with each part the answer that says how many members there are."""
        written = self.replica.write(KEYS, list(others))
        return [(each, (await self._run(each.commands))[-1]) for each in written]

    async def _run(self, commands: list[Command]) -> list[int]:
        return await self._link.run_all(commands)

    def held(self, tier: Tier = Tier.L0) -> set[int]:
        """Blocks in Redis; the sentinel must be there if anything is."""
        members: set[Any] = self.client.smembers(KEYS.blocks(A, EPOCH, tier))
        assert not members or b"@" in members
        return {int.from_bytes(member, "little") for member in members - {b"@"}}


@pytest.fixture
def written(redis_server: RedisServer, link: RedisLink) -> Written7:
    return Written7(redis_server, link)


async def test_a_snapshot_holds_what_is_owned_and_never_is_no_set(written: Written7) -> None:
    """L0 has a set although nothing is in it: a reader tells nothing held from nothing known."""
    await written.open({Tier.L1: [1, 2]})

    assert written.client.exists(KEYS.blocks(A, EPOCH, Tier.L0)) == 1
    assert (written.held(), written.held(Tier.L1)) == (set(), {1, 2})
    assert written.replica.tiers == (Tier.L0, Tier.L1)
    assert written.replica.sizes() == [1, 3]
    assert not written.replica.changed


async def test_a_large_snapshot_comes_in_pieces(redis_server: RedisServer, link: RedisLink, written: Written7) -> None:
    """No command has more than 2,000 members, no pipeline more than a few commands."""
    commands = list(written.replica.snapshot(KEYS, EPOCH, {Tier.L0: range(50_000)}))

    assert max(len(command) for part in commands for command in part) <= 2_002
    assert max(map(len, commands)) <= 8
    assert len(commands) == 1 + 4


async def test_what_happens_while_a_snapshot_is_written_comes_on_top_of_it(written: Written7) -> None:
    """It was taken at the beginning; what is pending is written after it."""
    parts = written.replica.snapshot(KEYS, EPOCH, {Tier.L0: [1, 2, 3]})
    written.replica.apply(Tier.L0, [4], [1])
    for part in parts:
        await written._run(part)
    written.replica.epoch = EPOCH
    assert written.held() == {1, 2, 3}

    (((_, _, _, size), answer),) = await written.write()

    assert written.held() == {2, 3, 4}
    assert size == answer == 4


async def test_a_clear_empties_one_tier_and_leaves_its_set(written: Written7) -> None:
    """What came before it is gone, what comes after it is there; a tier that was never told of gets no set."""
    await written.open({Tier.L0: [1, 2], Tier.L1: [5]})
    written.replica.apply(Tier.L0, [3], [])
    written.replica.clear(Tier.L0)
    written.replica.apply(Tier.L0, [4], [])
    written.replica.clear(Tier.L2)

    (((tier, _, _, size), answer),) = await written.write()

    assert (tier, size, answer) == (Tier.L0, 2, 2)
    assert (written.held(), written.held(Tier.L1)) == ({4}, {5})
    assert written.client.exists(KEYS.blocks(A, EPOCH, Tier.L2)) == 0
    assert written.client.ttl(KEYS.blocks(A, EPOCH, Tier.L0)) > 0


async def test_a_tier_that_is_told_of_for_the_first_time_gets_a_set(written: Written7) -> None:
    """And readers are to be told that there is one."""
    await written.open({Tier.L0: [1]})
    before = written.replica.details_due
    written.replica.apply(Tier.L1, [], [])

    assert (before, written.replica.details_due) == (False, True)
    await written.write()
    assert written.client.exists(KEYS.blocks(A, EPOCH, Tier.L1)) == 1


async def test_what_was_not_written_is_written_later(written: Written7) -> None:
    """The last word on each block counts, and the size is right again."""
    await written.open({Tier.L0: [1, 2]})
    written.replica.apply(Tier.L0, [3, 4], [1])
    lost = written.replica.write(KEYS, [])
    written.replica.apply(Tier.L0, [1], [3])
    assert written.replica.sizes() == [None]

    written.replica.put_back(lost)
    (((_, _, _, size), answer),) = await written.write()

    assert written.held() == {1, 2, 4}
    assert size == answer == 4


async def test_storage_is_removed_for_all(written: Written7) -> None:
    """From the other replicas' sets as well, so that no size can be told of one."""
    other = "test:v1:{ns=m}:r:b:3:l2"
    await written.open({Tier.L2: [1, 2]})
    written.client.sadd(other, (1).to_bytes(8, "little"), (9).to_bytes(8, "little"))
    written.replica.apply(Tier.L2, [], [1])

    (((_, _, _, size), _),) = await written.write([other, KEYS.blocks(A, EPOCH, Tier.L2)])

    assert size is None
    assert (written.held(Tier.L2), written.client.scard(other)) == ({2}, 1)


def test_a_set_is_intact_if_it_has_as_many_members_as_it_must() -> None:
    """Or, where that cannot be told, any."""
    assert [is_intact(3, 3), is_intact(3, 2), is_intact(3, 4), is_intact(None, 1), is_intact(None, 0)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert not is_intact(1, 0)


def test_pieces_are_all_of_it() -> None:
    """In order."""
    blocks = [bytes([number % 256]) for number in range(4_500)]

    assert [len(piece) for piece in pieces(blocks)] == [2_000, 2_000, 500]
    assert [block for piece in pieces(blocks) for block in piece] == blocks


def test_the_sets_of_an_epoch_that_is_over() -> None:
    """Of every tier: nobody knows any more which there were."""
    assert WrittenReplica(A).old_sets(KEYS, 3) == [KEYS.blocks(A, 3, tier) for tier in Tier]
