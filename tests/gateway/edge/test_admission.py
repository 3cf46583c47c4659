"""Who gets a place, who waits, and who is turned away."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.admission import Admission, Ticket, priority_of
from gateway.errors import BadRequest, GatewayError, Overloaded
from tests.fakes.waiting import eventually
from tests.gateway.edge.admitting import TIMEOUT_S, Request, Time, an_admission, enter


def test_a_free_place_is_taken_at_once() -> None:
    """Before ``enter`` returns, and without a timer; no limit means no limit."""
    time, told = Time(), list[object]()
    admission = an_admission(time)
    tickets = [enter(admission, n, told, tokens=10**9) for n in range(100)]

    assert told == list(range(100))
    assert not any(ticket.waits or ticket.queued_s for ticket in tickets)
    assert not time.timers
    assert (admission.inflight, admission.waiting) == (100, 0)


def test_the_bound_holds_under_a_burst_and_the_order_is_that_of_arrival() -> None:
    """10,000 at once for 100 places and 1,000 turns: the rest is refused, nobody overtakes."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=100)
    running: list[Ticket] = []
    refused = 0
    for n in range(10_000):
        try:
            running.append(enter(admission, n, told))
        except Overloaded:
            refused += 1
        assert admission.inflight <= 100
        assert admission.waiting <= 1000
    assert (len(told), admission.waiting, refused) == (100, 1000, 8900)

    for ticket in running:
        ticket.release()
        assert admission.inflight <= 100
    assert told == list(range(1100))
    counts = dict.fromkeys(("inflight", "inflight_tokens", "waiting", "waiting_tokens", "expired", "left"), 0)
    assert admission.counts() == counts | {"admitted": 1100, "refused": 8900}


def test_two_streams_hold_two_places_until_they_end() -> None:
    """A place is held from beginning to end; giving one back frees exactly one, also when it is given back twice."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=2)
    first, second = enter(admission, "a", told), enter(admission, "b", told)
    waiting = [enter(admission, name, told) for name in "cde"]
    assert told == ["a", "b"]

    time.pass_by(2.5)
    second.release()
    second.release()
    assert told == ["a", "b", "c"]
    assert waiting[0].queued_s == 2.5

    waiting[1].release()  # d leaves while it waits
    waiting[1].release()
    first.release()
    assert told == ["a", "b", "c", "e"]
    assert (admission.inflight, admission.waiting, admission.left) == (2, 0, 1)


def test_without_a_queue_nobody_waits() -> None:
    """0: what finds no place is refused at once."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1, queue=0)
    ticket = enter(admission, "a", told)
    with pytest.raises(Overloaded):
        enter(admission, "b", told)
    ticket.release()
    enter(admission, "c", told)
    assert told == ["a", "c"]


def test_what_would_be_refused_whatever_its_size_is_refused_before_its_size_is_known() -> None:
    """All places taken, by number or by tokens, and all turns; where something might fit, nothing is refused."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=2, tokens=100, queue=1)
    first = enter(admission, "a", told, tokens=60)
    enter(admission, "b", told, tokens=50)
    admission.refuse_if_full()  # one place is free, for 40 tokens of a higher priority
    second = enter(admission, "urgent", told, tokens=40, priority=1)
    with pytest.raises(Overloaded):
        admission.refuse_if_full()
    second.release()
    admission.refuse_if_full()
    first.release()
    admission.refuse_if_full()
    assert admission.refused == 1
    assert told == ["a", "urgent", "b"]


def test_tokens_are_bounded_too() -> None:
    """Those at replicas, and those in the queue; one who waits alone may be of any size."""
    time, told = Time(), list[object]()
    admission = an_admission(time, tokens=100, queue_tokens=50)
    first = enter(admission, "a", told, tokens=80)
    enter(admission, "b", told, tokens=20)
    enter(admission, "c", told, tokens=60)
    with pytest.raises(Overloaded):
        enter(admission, "d", told, tokens=1)

    assert (admission.inflight_tokens, admission.waiting_tokens) == (100, 60)
    first.release()
    assert told == ["a", "b", "c"]
    enter(admission, "e", told, tokens=20)
    enter(admission, "f", told, tokens=50)
    with pytest.raises(Overloaded):
        enter(admission, "g", told, tokens=1)


def test_a_request_larger_than_the_limit_runs_alone() -> None:
    """It is neither refused for ever nor overtaken for ever: what comes after it waits until it is through."""
    time, told = Time(), list[object]()
    admission = an_admission(time, tokens=100)
    small = [enter(admission, f"small {n}", told, tokens=10) for n in range(3)]
    giant = enter(admission, "giant", told, tokens=5000)
    enter(admission, "late", told, tokens=10)
    for ticket in small:
        assert giant.waits
        ticket.release()

    assert told == ["small 0", "small 1", "small 2", "giant"]
    assert admission.inflight_tokens == 5000
    giant.release()
    assert told[-1] == "late"


def test_who_blocks_the_line_and_leaves_lets_the_next_go() -> None:
    """By a client's going, or by its time."""
    for leaves in (True, False):
        time, told = Time(), list[object]()
        admission = an_admission(time, tokens=100)
        enter(admission, "a", told, tokens=50)
        large = enter(admission, "large", told, tokens=90)
        time.pass_by(10)
        enter(admission, "small", told, tokens=10)
        assert told == ["a"]
        if leaves:
            large.release()
        else:
            time.pass_by(20)
        assert told == ["a", *([] if leaves else [("expired", "large")]), "small"]


def test_a_higher_priority_goes_first() -> None:
    """Before all that wait with a lower one; among equals the order of arrival stays."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1)
    holder = enter(admission, "holder", told)
    names = {"low": -1, "a": 0, "x": 5, "y": 5, "b": 0, "higher": 6}
    tickets = {name: enter(admission, name, told, priority=priority) for name, priority in names.items()}
    holder.release()
    for name in ("higher", "x", "y", "a", "b"):
        assert told[-1] == name
        tickets[name].release()

    assert told == ["holder", "higher", "x", "y", "a", "b", "low"]


def test_a_higher_priority_need_not_wait_where_it_fits() -> None:
    """The first in line may be a large request with a lower one."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=2, tokens=100, queue=1)
    enter(admission, "a", told, tokens=60)
    enter(admission, "large", told, tokens=90)
    enter(admission, "urgent", told, tokens=10, priority=5)
    assert told == ["a", "urgent"]


def test_who_waits_too_long_is_told_once() -> None:
    """Each at its own time, with one timer for all; afterwards nothing is left of it."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1)
    holder = enter(admission, "holder", told)
    early = Request("early", told)
    ticket = admission.enter(1, 0, early.admitted, early.expired)
    time.pass_by(10)
    enter(admission, "late", told, priority=3)
    assert len(time.timers) == 1

    time.pass_by(TIMEOUT_S - 10)
    assert told == ["holder", ("expired", "early")]
    assert early.error is not None
    assert (early.error.status, early.error.code) == (503, "queue_timeout")
    assert early.error.retry_after_s is not None
    assert len(time.timers) == 1
    ticket.release()

    time.pass_by(10)
    assert told[2:] == [("expired", "late")]
    assert not time.timers
    holder.release()
    assert admission.counts() | {"admitted": 0} == dict.fromkeys(admission.counts(), 0) | {"expired": 2}
    enter(admission, "next", told)
    assert told[-1] == "next"


def test_a_refusal_says_when_to_come_back() -> None:
    """From how fast places have been freeing, and how many wait for one."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1, queue=40)
    tickets = [enter(admission, n, told) for n in range(41)]
    for ticket in tickets[:20]:  # four a second
        time.pass_by(0.25)
        ticket.release()
    tickets += [enter(admission, n, told) for n in range(20)]
    with pytest.raises(Overloaded) as refused:
        enter(admission, "one more", told)

    assert refused.value.status == 429
    assert refused.value.retry_after_s == 11  # 41 places


def test_a_callback_that_fails_leaves_the_books_right() -> None:
    """At once it is the caller's error; from the queue it is logged, and the next one goes."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        admission.enter(5, 0, fail, fail)
    assert admission.inflight_tokens == 0

    holder = enter(admission, "holder", told)
    broken = admission.enter(5, 0, fail, fail)
    enter(admission, "next", told)
    holder.release()
    for _ in range(2):
        assert told == ["holder", "next"]
        assert (admission.inflight, admission.inflight_tokens) == (1, 1)
        broken.release()  # its owner need not know

    admission.enter(5, 0, fail, fail)
    enter(admission, "last", told)
    time.pass_by(TIMEOUT_S)
    assert told[-1] == ("expired", "last")
    assert admission.waiting == 0


def test_callbacks_may_release_and_enter() -> None:
    """A long chain of requests that end as soon as they begin, and one that is replaced by another: no recursion."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1, queue=20_000)
    holder = enter(admission, "holder", told)
    for _ in range(10_000):
        admission.enter(1, 0, lambda ticket: ticket.release(), lambda error: None)

    def again(ticket: Ticket) -> None:
        enter(admission, "urgent", told, priority=1)
        ticket.release()

    admission.enter(1, 0, again, lambda error: None)
    enter(admission, "last", told)
    holder.release()
    assert told == ["holder", "urgent"]
    assert (admission.inflight, admission.waiting) == (1, 1)


def test_one_callback_of_expiry_may_release_another_that_is_due() -> None:
    """Then that one just left."""
    time, told = Time(), list[object]()
    admission = an_admission(time, inflight=1)
    enter(admission, "holder", told)
    tickets: list[Ticket] = []

    def expired(_: GatewayError) -> None:
        for ticket in tickets:
            ticket.release()

    tickets += [admission.enter(1, priority, lambda ticket: None, expired) for priority in (0, 1, 0)]
    time.pass_by(TIMEOUT_S)
    assert (admission.expired, admission.left, admission.waiting) == (1, 2, 0)


def test_a_ticket_keeps_nothing_of_its_request() -> None:
    """What has ended is freed without waiting for the garbage collector, whether it waited or not."""
    time = Time()
    admission = an_admission(time, inflight=1)
    gc.disable()
    try:
        requests = [Holder() for _ in range(3)]
        for request in requests:
            request.ticket = admission.enter(1, 0, request.admitted, request.expired)
        watched = [weakref.ref(request) for request in requests]
        for request in requests[:2]:
            request.ticket.release()
        time.pass_by(TIMEOUT_S)
        requests[2].ticket.release()
        del request, requests
        assert [ref() for ref in watched] == [None, None, None]
    finally:
        gc.enable()


class Holder(Request):
    """Holds its ticket, as the edge's requests do."""

    ticket: Ticket


async def test_an_event_loop_is_timer_enough() -> None:
    """The real clock and the real timer."""
    loop = asyncio.get_running_loop()
    admission = Admission(
        max_inflight=1,
        max_inflight_tokens=None,
        max_queue=2,
        max_queue_tokens=None,
        queue_timeout_s=0.01,
        clock=loop.time,
        call_later=loop.call_later,
    )
    told: list[object] = []
    enter(admission, "a", told)
    enter(admission, "b", told)
    await eventually(lambda: told == ["a", ("expired", "b")])


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        (b"", 0),
        (b"0", 0),
        (b"-0", 0),
        (b"7", 7),
        (b"+7", 7),
        (b"-7", -7),
        (b"000005", 5),
        (b"100", 100),
        (b"101", 100),
        (b"-99999999999999", -100),
        (b"9" * 5000, 100),
    ],
)
def test_a_priority_is_a_whole_number_within_bounds(text: bytes, priority: int) -> None:
    """None is 0; beyond the bounds is the bound."""
    assert priority_of(text) == priority


@pytest.mark.parametrize("text", [b"high", b"1.5", b"1_0", b" 1", b"--1", b"-", b"\xb2", b"0x1"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    """A client that believes it goes first should know that it does not."""
    with pytest.raises(BadRequest, match="whole number") as refused:
        priority_of(text)
    assert refused.value.param == "x-prefixway-priority"


@given(st.binary(max_size=12))
def test_odd_bytes_are_a_refusal_or_a_number(text: bytes) -> None:
    """Nothing else."""
    with contextlib.suppress(BadRequest):
        assert -100 <= priority_of(text) <= 100
