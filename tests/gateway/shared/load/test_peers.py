"""The other gateways: whatever gets lost on the way, after a sync all have the same books."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.inflight import InFlight
from gateway.shared.load.load_messages import FirstByte, batches, encode
from tests.gateway.shared.load.gateways import Side


def _sync(teller: Side) -> list[bytes]:
    teller.own.owe_sync()
    return teller.says()


def test_hears_of_others_and_not_of_itself() -> None:
    """Its own messages come back to it, and are no news."""
    teller, hearer = Side("p1"), Side("p2")
    teller.dispatch("a")
    payloads = teller.says()
    hearer.hears(payloads)
    teller.hears(payloads)

    assert (hearer.load_of("a"), len(hearer.peers), hearer.peers.inflight) == ((1, 0, 100), 1, 1)
    assert (teller.load_of("a"), len(teller.peers)) == ((1, 0, 100), 0)


def test_late_and_double_messages_are_ignored() -> None:
    """A dispatch that comes after its end must not stay."""
    teller, hearer = Side("p1"), Side("p2")
    request = teller.dispatch("a")
    sent = teller.says()
    teller.end("a", request)
    over = teller.says()
    hearer.hears([*over, *sent, *over, *sent])

    assert hearer.is_idle()


def test_counts_what_did_not_come() -> None:
    """By the counter of what does come."""
    teller, hearer = Side("p1"), Side("p2")
    for _ in range(5):
        payloads = _sync(teller)
        if len(hearer.peers) == 0 or teller.replica("a").workload.inflight > 2:
            hearer.hears(payloads)
        teller.dispatch("a")

    assert (hearer.peers.counts["received"], hearer.peers.counts["missed"]) == (3, 2)


def test_whoever_falls_silent_takes_its_requests_along() -> None:
    """Others stay."""
    quiet, loud, hearer = Side("p1"), Side("p2"), Side("p3")
    for teller in (quiet, loud):
        teller.dispatch("a")
        hearer.hears(_sync(teller))
    hearer.clock.now += 2
    hearer.hears(_sync(loud))
    hearer.clock.now += 2
    hearer.peers.drop_silent(hearer.clock.now, after_s=3)

    assert (hearer.load_of("a")[0], len(hearer.peers)) == (1, 1)
    hearer.hears(_sync(quiet))
    assert hearer.load_of("a")[0] == 2
    hearer.peers.drop_all(hearer.clock.now)
    assert hearer.is_idle()


def test_whoever_leaves_has_nothing_any_more() -> None:
    """At its last word, not after a while; whatever stands behind it in the same message."""
    teller, hearer = Side("p1"), Side("p2")
    teller.dispatch("a")
    hearer.hears(teller.says())
    hearer.hears(teller.own.take_last())
    name = ["tiny", "a", 0]
    odd = [[5], [1, 9, name, 0.5, 10, 1.0, True], [5]]
    hearer.hears([msgspec.msgpack.encode([1, "p9", "s", 1, odd])])

    assert len(hearer.peers) == 0
    assert hearer.is_idle()


def test_what_cannot_be_read_is_counted() -> None:
    """An envelope, or one record of it: the others count."""
    hearer = Side("p2")
    name = ["tiny", "a", 0]
    hearer.hears([b"\xc1", msgspec.msgpack.encode([1, "p1", "s", 1, [[99], [1, 1, name, 0.5, 10, 1.0, True]]])])

    assert hearer.peers.counts["unreadable"] == 2
    assert hearer.load_of("a") == (1, 0, 10)


def test_there_may_be_only_so_many_gateways() -> None:
    """Names that a stranger makes up do not pile up."""
    hearer = Side("me")
    for number in range(1000):
        hearer.hears([msgspec.msgpack.encode([1, f"p{number}", "s", 1, []])])

    assert len(hearer.peers) == 256
    assert hearer.peers.counts["refused"] == 744


_STEP = st.tuples(
    st.sampled_from(["send", "send", "first", "end", "say", "sync", "wait"]),
    st.integers(0, 1),  # who
    st.sampled_from("ab"),  # where
    st.integers(0, 9),
    st.booleans(),
)


@given(steps=st.lists(_STEP, max_size=60), some_plain=st.booleans(), fates=st.randoms(use_true_random=False))
def test_after_a_sync_the_books_are_exactly_what_is_open(
    steps: list[tuple[str, int, str, int, bool]], some_plain: bool, fates: Random
) -> None:
    """Two gateways tell a third; messages get lost, come late, twice, in any order. Then each syncs once.

    When a plain answer's prefill ends is estimated by each for itself.
    """
    tellers, hearer = (Side("p1"), Side("p2")), Side("p3")
    for side in (*tellers, hearer):
        side.clock = hearer.clock
    running: list[list[tuple[str, InFlight]]] = [[], []]
    on_their_way: list[bytes] = []
    for what, who, where, number, coin in steps:
        teller, requests = tellers[who], running[who]
        if what == "send":
            requests.append((where, teller.dispatch(where, 0.1 + number / 7, streamed=coin or not some_plain)))
        elif what == "first" and requests:
            teller.first_byte(*requests[number % len(requests)])
        elif what == "end" and requests:
            teller.end(*requests.pop(number % len(requests)))
        elif what == "wait":
            hearer.clock.now += number / 10
        elif what in ("say", "sync"):
            on_their_way += _sync(teller) if what == "sync" else teller.says()
            hearer.hears(_fate(on_their_way, fates))
    for teller in tellers:
        teller.says()  # lost
        hearer.hears(_sync(teller))

    for id_ in "ab":
        told = tuple(sum(counts) for counts in zip(*(teller.load_of(id_) for teller in tellers)))
        heard = hearer.load_of(id_)
        assert heard[:1] == told[:1] if some_plain else heard == told
    for who, teller in enumerate(tellers):
        for request in running[who]:
            teller.end(*request)
        hearer.hears(_sync(teller))
    assert hearer.is_idle()
    assert (hearer.space.requests, hearer.space.blocks) == (200_000, 4_000_000)


def _fate(on_their_way: list[bytes], fates: Random) -> list[bytes]:
    """Some of them come now, in any order; some of these come again later; some never come."""
    arrive = [payload for payload in on_their_way if fates.random() < 0.5]
    fates.shuffle(arrive)
    on_their_way[:] = [payload for payload in on_their_way if fates.random() < 0.5]
    return arrive


def test_an_older_gateway_says_less_of_what_it_learned() -> None:
    """How long it took beside what it predicted: that moves the common factor."""
    one, two = Side("one"), Side("two")
    one.dispatch("a", promised_s=0.5)
    two.hears(one.says())
    (batch,) = batches([FirstByte(1, actual_s=1.0, unscaled_s=0.5)])
    two.hears([encode("one", two.secret.id, 99, batch)])

    assert two.speeds.samples == 1
    assert two.speeds.rates.calibration == pytest.approx((1.0 + 1.0) / (1.0 + 0.5), rel=0.01)


def test_what_one_learns_of_speeds_all_learn() -> None:
    """A prefill that was seen to its end calibrates every gateway; one told late, or of nobody's request, none."""
    one, two = Side("one"), Side("two")
    request = one.dispatch("a", promised_s=0.5)
    two.hears(one.says())
    for side in (one, two):
        side.clock.now += 1.0
    one.first_byte("a", request)
    payloads = one.says()
    two.hears(payloads)
    two.hears(payloads)

    assert two.speeds.samples == 1
    assert two.speeds.rates.calibration == pytest.approx((1.0 + 1.0) / (1.0 + 0.512), rel=0.01)
    assert next(two.speeds.learned()).samples == 1  # and of what it was made
