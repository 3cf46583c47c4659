"""Another gateway's requests in our books."""

from __future__ import annotations

import pytest

from gateway.fleet.load_report import LoadReport
from gateway.fleet.server_spec import parse_servers
from gateway.kv.block_bytes import pack_blocks
from gateway.kv.l2_estimate import L2Estimate
from gateway.kv.tiers import Tier
from gateway.kv.trust import FeedState
from gateway.shared.load.load_messages import Dispatched, OpenRequest, ReplicaName, Sync
from gateway.shared.load.peer_requests import PeerRequests
from tests.gateway.examples import MODEL, Clock, Events
from tests.gateway.shared.load.gateways import Side

A = ReplicaName(MODEL, "a", 0)
BLOCKS = [11, 12, 13]


def _dispatched(
    number: int = 1, *, replica: ReplicaName = A, streamed: bool = True, block_size: int = 16, blocks: bytes = b""
) -> Dispatched:
    return Dispatched(number, replica, 0.5, 100, 2.0, streamed, block_size, blocks or pack_blocks(BLOCKS))


def _open(number: int = 1, *, age_s: float = 0.0, prefilling: bool = True) -> OpenRequest:
    return OpenRequest(number, 0, age_s, 0.5, 100, 2.0, True, prefilling)


def _expected(side: Side) -> int:
    key = side.replica("a").key
    return side.routed.match({16: BLOCKS}, [key], now=side.clock.now).get(key, 0)


def test_a_dispatch_counts_as_one_of_ours() -> None:
    """In flight, promised, to be prefilled, its blocks expected; the first byte and the end release it."""
    side = Side("me")
    requests, now = PeerRequests(side.books), side.clock.now
    requests.dispatched(_dispatched(), now, same_secret=True)
    replica = side.replica("a")

    assert (side.load_of("a"), side.promised_s("a"), _expected(side)) == ((1, 0, 100), 0.5, 48)
    assert replica.workload.kv_blocks == 2.0
    assert replica.workload.own_inflight == 0
    assert side.router.utilisation.per_replica(2, now) > 0
    requests.first_byte(1, now)
    assert (side.load_of("a"), side.promised_s("a")) == ((1, 1, 0), 0.0)
    requests.ended(1, now, kept=False)
    side.clock.now += 1.1
    assert side.is_idle()
    assert _expected(side) == 0


def test_blocks_under_another_secret_say_nothing() -> None:
    """The work counts all the same."""
    side = Side("me")
    PeerRequests(side.books).dispatched(_dispatched(), side.clock.now, same_secret=False)

    assert (side.load_of("a"), _expected(side)) == ((1, 0, 100), 0)


def test_blocks_of_another_size_say_nothing() -> None:
    """A peer that does not know the replica's block size yet must not confuse what we expect there."""
    side = Side("me", events=Events({"a": {Tier.L0: 32}}))
    PeerRequests(side.books).dispatched(_dispatched(block_size=16), side.clock.now, same_secret=True)

    assert side.load_of("a") == (1, 0, 100)
    assert len(side.routed.in_flight(side.replica("a").key)) == 0


@pytest.mark.parametrize(
    ("kept", "state", "tokens"),
    [(True, None, 48), (True, FeedState.BLIND, 48), (False, None, 0), (True, FeedState.FRESH, 0)],
)
def test_what_a_peer_keeps_for_want_of_events_is_kept_here(kept: bool, state: FeedState | None, tokens: int) -> None:
    """Unless events tell this process more than the peer."""
    events = Events() if state is None else Events({"a": {Tier.L0: 16}}, state)
    side = Side("me", events=events)
    requests = PeerRequests(side.books)
    requests.dispatched(_dispatched(), side.clock.now, same_secret=True)
    requests.ended(1, side.clock.now, kept=kept)
    side.clock.now += 300

    assert _expected(side) == tokens


def test_what_is_kept_for_peers_is_bounded_by_the_replicas_capacity() -> None:
    """A cache of two blocks holds two."""
    side = Side("me")
    side.replica("a").reported(LoadReport(kv_tokens=32), 0.0)
    requests = PeerRequests(side.books)
    requests.dispatched(_dispatched(), side.clock.now, same_secret=True)
    requests.ended(1, side.clock.now, kept=True)
    side.clock.now += 300

    assert _expected(side) == 32


@pytest.mark.parametrize(
    "name", [ReplicaName(MODEL, "gone", 0), ReplicaName("other", "a", 0), ReplicaName(MODEL, "a", 1)]
)
def test_replicas_that_are_not_known_here_are_ignored(name: ReplicaName) -> None:
    """Another server, another model's cache, another rank; first byte and end of it change nothing."""
    side = Side("me")
    requests, now = PeerRequests(side.books), side.clock.now
    requests.dispatched(_dispatched(replica=name), now, same_secret=True)
    requests.first_byte(1, now)
    requests.ended(1, now, kept=True)

    assert len(requests) == 0
    assert side.is_idle()


def test_a_replica_that_comes_to_be_known_gets_its_requests_by_sync() -> None:
    """Discovery may reach one gateway seconds before the other."""
    side = Side("me", servers="b=http://b:1")
    requests, now = PeerRequests(side.books), side.clock.now
    requests.dispatched(_dispatched(), now, same_secret=True)
    late = Side("me")
    requests = PeerRequests(late.books)
    requests.agree(Sync(0, 1, [A], [_open()]), now)

    assert late.load_of("a") == (1, 0, 100)


def test_a_sync_adds_what_was_missed_and_ends_what_it_does_not_list() -> None:
    """Of the numbers it is about; others stay."""
    side = Side("me")
    requests, now = PeerRequests(side.books), side.clock.now
    for number in (1, 2, 9):
        requests.dispatched(_dispatched(number), now, same_secret=True)
    requests.agree(Sync(0, 5, [A], [_open(2), _open(3)]), now)

    assert len(requests) == 3
    requests.ended(1, now, kept=False)  # it is not there any more
    assert side.load_of("a") == (3, 0, 300)
    requests.agree(Sync(0, 9, [A], []), now)
    side.clock.now += 1.1
    assert side.is_idle()


def test_a_sync_tells_ages_and_whose_prefill_is_done() -> None:
    """A missed first byte releases the promise; a promise of some age is partly worked off."""
    side = Side("me")
    requests, now = PeerRequests(side.books), side.clock.now
    requests.dispatched(_dispatched(1), now, same_secret=True)
    requests.agree(Sync(0, 3, [A], [_open(1, prefilling=False), _open(2, age_s=9.0, prefilling=False)]), now)
    done = side.load_of("a"), side.promised_s("a")
    requests.agree(Sync(4, 4, [A], [_open(4, age_s=0.25)]), now)
    requests.agree(Sync(4, 4, [A], [_open(4, age_s=0.25)]), now)

    assert done == ((2, 2, 0), 0.0)
    assert side.load_of("a") == (3, 2, 100)
    assert 0 < side.promised_s("a") <= 0.5


def test_rows_that_name_no_replica_of_their_sync_are_ignored() -> None:
    """Nothing that is sent can make it stumble."""
    side = Side("me")
    requests = PeerRequests(side.books)
    requests.agree(Sync(0, 3, [], [_open(1)]), side.clock.now)

    assert len(requests) == 0


def test_a_replica_that_left_takes_them_along() -> None:
    """Nothing is expected of a new one of the same name but what a sync tells; ends of old ones do no harm."""
    side = Side("me")
    requests, now = PeerRequests(side.books), side.clock.now
    for number in (1, 2):
        requests.dispatched(_dispatched(number), now, same_secret=True)
    before = side.replica("a")
    side.routed.drop(before.key)
    side.pool.reconcile(parse_servers("b=http://b:1"))
    requests.ended(1, now, kept=True)
    side.pool.reconcile(parse_servers("a=http://a:1,b=http://b:1"))
    server = side.pool.server("a")
    assert server is not None
    other = side.pool.server("b")
    assert other is not None
    side.pool.identify(server, other.cards, {})
    nothing_yet = side.load_of("a"), _expected(side)
    requests.agree(Sync(0, 2, [A], [_open(2)]), now)

    assert nothing_yet == ((0, 0, 0), 0)
    assert (side.load_of("a"), _expected(side)) == ((1, 0, 100), 0)
    assert before.workload.inflight == 0


def test_strangers_cannot_fill_the_memory() -> None:
    """Requests and blocks beyond what all may have are not booked; what ends makes room again."""
    side = Side("me")
    side.space.requests, side.space.blocks = 2, 4
    requests, now = PeerRequests(side.books), side.clock.now
    for number in (1, 2, 3):
        requests.dispatched(_dispatched(number), now, same_secret=True)
    requests.agree(Sync(4, 4, [A], [_open(4)]), now)
    sharing = side.routed.in_flight(side.replica("a").key)[BLOCKS[0]]

    assert (len(requests), sharing) == (2, 1)
    requests.end_all(now)
    assert (side.space.requests, side.space.blocks) == (2, 4)
    assert side.is_idle()


def test_a_prefill_told_late_spoils_no_calibration() -> None:
    """Our request may have waited behind one we did not know: it is no sample. One sent later is."""
    side = Side("me")
    requests, clock = PeerRequests(side.books), side.clock
    ours = side.dispatch("a")
    clock.now += 1
    requests.agree(Sync(0, 1, [A], [_open(1, age_s=2.0)]), clock.now)
    clock.now += 1
    workload = side.replica("a").workload
    late = workload.first_byte(ours, clock.now)
    requests.first_byte(1, clock.now)
    later = side.dispatch("a")

    assert late is None
    assert workload.first_byte(later, clock.now) is not None


def test_a_plain_answer_of_a_peer_holds_its_promise_as_one_of_ours() -> None:
    """Until its prefill should have ended."""
    side = Side("me", clock=Clock())
    PeerRequests(side.books).dispatched(_dispatched(streamed=False), side.clock.now, same_secret=True)
    side.clock.now += 0.6

    assert side.load_of("a") == (1, 1, 0)


@pytest.mark.parametrize(
    ("same_secret", "has_begun", "tokens"), [(True, True, 512), (True, False, 0), (False, True, 0)]
)
def test_what_peers_finish_lies_in_shared_storage_too(same_secret: bool, has_begun: bool, tokens: int) -> None:
    """By the estimate: where its prefill was seen to be done, and its blocks can be compared with ours."""
    side, estimate, blocks = Side("me"), L2Estimate(), list(range(1, 41))
    requests, now = PeerRequests(side.books._replace(l2=estimate)), side.clock.now
    requests.dispatched(_dispatched(blocks=pack_blocks(blocks)), now, same_secret=same_secret)
    if has_begun:
        requests.first_byte(1, now)
    assert estimate.match({16: blocks}, now=now) == 0
    requests.ended(1, now, kept=False)

    assert estimate.match({16: blocks}, now=now) == tokens


def test_what_we_held_back_is_learned_when_a_peers_prefill_ends() -> None:
    """Our first byte came while the peer's request still waited: it may have been of the same step, until that ends."""
    side = Side("me")
    requests = PeerRequests(side.books)
    ours = side.dispatch("a")
    requests.dispatched(_dispatched(), side.clock.now, same_secret=True)
    side.clock.now += 0.5
    side.first_byte("a", ours)
    held_back = side.speeds.samples
    side.clock.now += 0.5
    requests.first_byte(1, side.clock.now)

    assert (held_back, side.speeds.samples) == (0, 1)
