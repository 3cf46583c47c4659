"""What a process writes, wants to write and leaves, without a Redis."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from gateway.fleet.replica_key import ReplicaKey
from gateway.kv.tiers import Tier
from gateway.shared.index.claims import Claims
from gateway.shared.index.epoch_opening import EpochOpening
from gateway.shared.index.writer_stats import WriterStats
from gateway.shared.index.written_replica import WrittenReplica
from gateway.shared.link.fault_log import FaultLog
from gateway.shared.link.keys import Keys
from gateway.shared.link.redis_errors import RedisRefused

A, B = ReplicaKey("model", "a"), ReplicaKey("model", "b")
KEYS = Keys("test")


@dataclass
class Desk:
    """Claims, and what a keeper of epochs would do with them."""

    stats: WriterStats = field(default_factory=WriterStats)
    wakes: int = 0

    def __post_init__(self) -> None:
        evictions = FaultLog(logging.getLogger("evictions"), "lost", "kept", clock=lambda: 0.0)
        self.claims = Claims(KEYS, self.stats, evictions, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def why(self, now: float = 0.0) -> dict[str, str]:
        """Why an epoch is wanted, by replica."""
        return {replica.key.replica_id: why for replica, why in self.claims.due(now)}

    def opening(self, key: ReplicaKey = A, epoch: int = 7) -> tuple[WrittenReplica, EpochOpening]:
        """Begin it, claim it, and be given an epoch."""
        self.claims.begin(key)
        self.claims.claim(key)
        self.grant(epoch)
        return self.claims.openings[-1]

    def opened(self, key: ReplicaKey = A, epoch: int = 7) -> WrittenReplica:
        """Be through with it, too."""
        replica, opening = self.opening(key, epoch)
        opening.next_piece(lambda: replica.snapshot(KEYS, epoch, {Tier.L0: []}))
        self.claims.opened(replica, opening)
        return replica

    def grant(self, epoch: int | None, now: float = 0.0) -> None:
        for replica, why in self.claims.due(now):
            self.claims.answered(replica, why, epoch)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_claim_becomes_an_epoch_in_force(desk: Desk) -> None:
    desk.claims.claim(A)
    assert desk.claims.are_settled  # nothing is known of it: nobody follows it
    desk.claims.begin(A)
    desk.claims.claim(A)
    assert (desk.why(), desk.claims.are_settled, desk.wakes) == ({"a": "takeover"}, False, 1)

    desk.grant(7)
    assert (desk.why(), desk.claims.writes(A), desk.claims.is_opening) == ({}, False, True)
    ((replica, opening),) = desk.claims.openings
    desk.claims.opened(replica, opening)

    assert (desk.claims.writes(A), desk.claims.is_open(replica), desk.claims.are_settled) == (True, True, True)
    assert (desk.claims.written, replica.epoch) == ([replica], 7)
    assert desk.stats.epochs == {"takeover": 1}


def test_where_another_process_writes_the_claim_is_over(desk: Desk) -> None:
    desk.claims.begin(A)
    desk.claims.claim(A)
    desk.grant(None)

    assert (desk.claims.are_settled, desk.claims.writes(A)) == (True, False)


def test_a_replica_that_is_written_or_opened_is_not_claimed_again(desk: Desk) -> None:
    replica, opening = desk.opening()
    desk.claims.claim(A)
    assert desk.why() == {}
    desk.claims.opened(replica, opening)
    desk.claims.claim(A)
    assert desk.why() == {}


def test_changes_are_wanted_once_a_snapshot_was_taken(desk: Desk) -> None:
    """Before that they are in it; of another incarnation they never are."""
    replica, opening = desk.opening()
    assert desk.claims.taking(A) is None
    opening.next_piece(lambda: replica.snapshot(KEYS, 7, {}))
    assert desk.claims.taking(A) is replica
    desk.claims.opened(replica, opening)
    assert desk.claims.taking(A) is replica
    assert desk.claims.taking(A._replace(incarnation=1)) is None
    assert desk.claims.taking(B) is None


def test_what_is_outdated_takes_no_changes_and_wants_a_new_epoch(desk: Desk) -> None:
    replica = desk.opened()

    assert desk.claims.outdate(replica, "backlog")

    assert (desk.why(), desk.claims.taking(A), desk.claims.is_open(replica)) == ({"a": "backlog"}, None, False)
    assert desk.claims.writes(A)  # readers read it until the new one is there


def test_what_was_never_written_is_not_outdated(desk: Desk) -> None:
    desk.claims.begin(A)
    assert not desk.claims.outdate(WrittenReplica(A), "lost")
    assert desk.claims.are_settled


@pytest.mark.parametrize("is_open", [True, False])
def test_an_engine_that_restarted_voids_what_was_written(desk: Desk, *, is_open: bool) -> None:
    """Its sets are not to be read; where none was in force, the opening alone is given up."""
    old = desk.opened() if is_open else desk.opening()[0]
    sets = old.old_sets(KEYS, 7) if is_open else []

    desk.claims.begin(A._replace(incarnation=1))

    assert (desk.why(), desk.claims.stale_sets, desk.claims.is_opening) == ({"a": "engine"}, sets, False)


def test_one_that_left_is_given_back_in_the_epoch_that_it_had(desk: Desk) -> None:
    desk.opened(A, 7)
    desk.opened(B, 8)

    desk.claims.release(A)
    desk.claims.drop(B)

    left = [(gone.replica.key, gone.replica.epoch, gone.forget) for gone in desk.claims.leaving]
    assert left == [(A, 7, False), (B, 8, True)]
    assert (desk.claims.written, desk.claims.are_settled) == ([], False)
    desk.claims.claim(A)
    desk.claims.claim(B)
    assert desk.why() == {"a": "takeover"}  # it is still followed, the other is not


def test_all_are_given_back_at_the_end(desk: Desk) -> None:
    desk.opened(A)
    desk.opening(B)
    desk.claims.release_all()
    assert [(gone.replica.key, gone.forget) for gone in desk.claims.leaving] == [(A, False), (B, False)]
    assert (desk.claims.written, desk.claims.is_opening) == ([], False)


def test_an_incarnation_that_was_replaced_cannot_be_dropped(desk: Desk) -> None:
    replica = desk.opened()
    desk.claims.drop(A._replace(incarnation=1))
    assert (desk.claims.written, desk.claims.leaving) == ([replica], [])


def test_a_lock_that_was_lost_is_claimed_again(desk: Desk) -> None:
    desk.opened()
    desk.claims.lock_lost(desk.claims.written[0])
    assert (desk.claims.writes(A), desk.why(), desk.stats.locks_lost) == (False, {"a": "lost"}, 1)


def test_losses_that_repeat_wait_and_are_not_read_meanwhile(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A server that evicts keys is not filled again and again."""
    replica = desk.opened()
    desk.claims.entries_lost(replica, 100.0)
    assert (desk.why(100.0), desk.claims.stale_sets) == ({"a": "lost"}, [])
    desk.grant(8, 100.0)
    desk.claims.opened(*desk.claims.openings[0])
    assert not caplog.messages

    desk.claims.entries_lost(replica, 101.0)

    assert (desk.why(101.9), desk.why(102.0)) == ({}, {"a": "lost"})
    assert desk.claims.stale_sets == replica.old_sets(KEYS, 8)
    assert caplog.messages == ["lost: again and again: is it set to evict keys when its memory is full?"]


def test_refusals_are_counted_and_the_first_is_told(desk: Desk) -> None:
    """Only what lies in a set's place says that it is lost."""
    replica = desk.opened()
    first = RedisRefused("OOM", "out of memory")
    desk.claims.refused(replica, [first, RedisRefused("OOM", "out of memory")], 0.0)
    assert (desk.claims.refusal, desk.why()) == (first, {})

    desk.claims.refused(replica, [RedisRefused("WRONGTYPE", "a string")], 0.0)

    assert (desk.claims.refusal, desk.why()) == (first, {"a": "lost"})
    assert desk.stats.refused == {"OOM": 2, "WRONGTYPE": 1}


def test_what_is_found_out_of_one_that_left_means_nothing(desk: Desk) -> None:
    """Answers come late: it left, and may be there again by then, and be opened."""
    gone = desk.opened()
    desk.claims.drop(A)
    for is_back in (False, True):
        if is_back:
            desk.opening(A, 8)
        desk.claims.entries_lost(gone, 0.0)
        desk.claims.refused(gone, [RedisRefused("WRONGTYPE", "a string")], 0.0)
        desk.claims.lock_lost(gone)
        assert (desk.why(), desk.stats.locks_lost, desk.claims.is_opening) == ({}, 0, is_back)


def test_an_answer_to_a_claim_that_another_one_followed_is_not_taken(desk: Desk) -> None:
    replica = desk.opened()
    desk.claims.outdate(replica, "backlog")
    ((_, why),) = desk.claims.due(0.0)
    desk.claims.begin(A._replace(incarnation=1))

    desk.claims.answered(replica, why, 8)

    assert (desk.claims.is_opening, desk.why()) == (False, {"a": "engine"})


def test_openings_take_turns(desk: Desk) -> None:
    first, second = desk.opening(A), desk.opening(B)
    assert desk.claims.openings == [first, second]
    desk.claims.line_up(*first)
    assert desk.claims.openings == [second, first]

    desk.claims.release(A)
    desk.claims.line_up(*first)
    assert (desk.claims.openings, desk.claims.is_under_way(*first)) == ([second], False)
