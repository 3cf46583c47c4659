"""A replica's books: what was promised is worked off, and every entry is closed once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.inflight import InFlight, Workload
from gateway.fleet.prefill_sample import PrefillWork


def _request(
    promised_s: float = 1.0, *, streamed: bool = True, at: float = 0.0, tokens: int = 100, ours: bool = True
) -> InFlight:
    work = PrefillWork(tokens, 0.0, 1.0, 0.0, 0.0) if ours and streamed else None
    return InFlight(promised_s, promised_s, tokens, 2.0, streamed, at, ours=ours, work=work)


def test_promises_add_up_and_time_works_on_the_oldest() -> None:
    """Two promises of a second: after half a second one and a half are left; the first byte settles its own."""
    workload = Workload()
    first, second = _request(), _request()
    workload.dispatch(first, 0.0)
    workload.dispatch(second, 0.0)

    assert workload.promised_s(0.5) == pytest.approx(1.5)
    workload.first_byte(first, 0.8)
    assert workload.promised_s(0.8) == pytest.approx(1.0)
    assert (workload.inflight, workload.decoding, workload.pending_tokens) == (2, 1, 100)


def test_a_plain_answer_holds_its_promise_until_its_prefill_should_have_ended() -> None:
    """A non-streamed answer shows no first token: its promise ends by estimate, and it is no sample."""
    workload = Workload()
    plain = _request(streamed=False)
    workload.dispatch(plain, 0.0)

    assert workload.promised_s(0.5) == pytest.approx(0.5)
    assert workload.promised_s(1.0) == 0.0
    assert workload.decoding == 1
    assert workload.first_byte(plain, 9.0) is None


def test_prefills_are_samples_from_the_oldest_one_on() -> None:
    """Who overtakes the oldest is timed with it; while others wait, a sample may still grow, and is held back."""
    workload = Workload()
    first, second, third = _request(at=0.0), _request(at=0.0), _request(at=0.0)
    for request in (first, second, third):
        workload.dispatch(request, 0.0)
    early = [workload.first_byte(request, now) for request, now in ((second, 1.0), (first, 1.5))]
    sample = workload.first_byte(third, 4.0)

    assert early == [None, None]
    assert sample is not None
    assert (sample.actual_s, sample.unscaled_s, sample.tokens) == (4.0, 3.0, 300)


def test_a_sample_knows_how_many_decoded_beside() -> None:
    """When its first token came, itself not among them."""
    workload = Workload()
    decoding, later = _request(), _request(at=2.0)
    workload.dispatch(decoding, 0.0)
    workload.first_byte(decoding, 1.0)
    workload.dispatch(later, 2.0)
    sample = workload.first_byte(later, 3.0)

    assert sample is not None
    assert sample.decoding == 1


def test_who_waited_behind_one_that_was_given_up_is_no_sample() -> None:
    """Nobody knows how far that one was. Given up behind it, it changes nothing."""
    workload = Workload()
    given_up, behind, never_begun = _request(), _request(), _request()
    for request in (given_up, behind, never_begun):
        workload.dispatch(request, 0.0)
    workload.end(given_up)
    spoiled = workload.first_byte(behind, 2.0)
    workload.end(never_begun)
    first, other = _request(at=5.0), _request(at=5.0)
    for request in (first, other):
        workload.dispatch(request, 5.0)
    workload.end(other)

    assert spoiled is None
    assert workload.first_byte(first, 6.0) is not None


def test_a_prefill_that_may_have_waited_behind_a_plain_one_is_no_sample() -> None:
    """Nobody sees a plain prefill's end: what came behind it says nothing, what came later does."""
    workload = Workload()
    plain, behind, later = _request(streamed=False), _request(at=0.1), _request(at=5.0)
    workload.dispatch(plain, 0.0)
    workload.dispatch(behind, 0.1)
    waited = workload.first_byte(behind, 2.2)
    workload.dispatch(later, 5.0)
    alone = workload.first_byte(later, 6.0)

    assert waited is None
    assert alone is not None
    assert alone.actual_s == pytest.approx(1.0)


def test_other_gateways_requests_count_and_teach_nothing() -> None:
    """They hold promises and places; what this process sent is counted by itself; their prefills are no samples."""
    workload = Workload()
    theirs, own = _request(ours=False), _request()
    for request in (theirs, own):
        workload.dispatch(request, 0.0)
    counts = (workload.inflight, workload.own_inflight, workload.pending_tokens, workload.own_decoding)

    assert counts == (2, 1, 200, 0)
    assert workload.promised_s(0.0) == 2.0
    assert workload.first_byte(theirs, 1.0) is None
    assert (workload.decoding, workload.own_decoding) == (1, 0)
    sample = workload.first_byte(own, 1.5)
    assert sample is not None
    assert sample.actual_s == pytest.approx(0.5)  # it waited for theirs, and that was seen
    assert (workload.decoding, workload.own_decoding) == (2, 1)
    assert workload.end(theirs)
    assert (workload.inflight, workload.own_inflight) == (1, 1)


def test_what_waited_behind_something_told_late_is_no_sample() -> None:
    """A prefill that nobody saw begin may have come before; what is sent later is timed again."""
    workload = Workload()
    before, after = _request(at=0.0), _request(at=2.0)
    workload.dispatch(before, 0.0)
    workload.told_late(1.0)
    is_sample = workload.first_byte(before, 1.5) is not None
    workload.dispatch(after, 2.0)

    assert not is_sample
    assert workload.first_byte(after, 3.0) is not None


def test_says_whose_promise_still_stands() -> None:
    """Until the first byte, the end, or for a plain answer the time its prefill should take."""
    workload = Workload()
    streamed, plain = _request(), _request(streamed=False)
    for request in (plain, streamed):
        workload.dispatch(request, 0.0)

    assert [workload.is_prefilling(request, 0.5) for request in (plain, streamed)] == [True, True]
    assert [workload.is_prefilling(request, 1.5) for request in (plain, streamed)] == [False, True]
    workload.first_byte(streamed, 2.0)
    assert not workload.is_prefilling(streamed, 2.0)


def test_ends_once() -> None:
    """The second end changes nothing."""
    workload = Workload()
    request = _request()
    workload.dispatch(request, 0.0)

    assert workload.end(request)
    assert not workload.end(request)
    assert (workload.inflight, workload.promised_s(0.0), workload.kv_blocks) == (0, 0.0, 0.0)


_STEPS = st.tuples(st.sampled_from(["send", "first", "end", "wait"]), st.integers(0, 9), st.booleans(), st.booleans())


@given(st.lists(_STEPS))
def test_books_are_never_negative_and_end_at_zero(steps: list[tuple[str, int, bool, bool]]) -> None:
    """Any order of dispatches, first bytes, ends and time keeps sums at 0 or more; all ended is exactly 0."""
    workload, requests, now = Workload(), list[InFlight](), 0.0
    for step, number, streamed, ours in steps:
        now += number / 10
        if step == "send":
            requests.append(_request(0.1 + number / 7, streamed=streamed, at=now, ours=ours))
            workload.dispatch(requests[-1], now)
        elif requests and step == "first":
            workload.first_byte(requests[number % len(requests)], now)
        elif requests and step == "end":
            workload.end(requests[number % len(requests)])
        assert workload.promised_s(now) >= 0
        assert workload.pending_tokens >= 0
        assert 0 <= workload.own_decoding <= workload.decoding <= workload.inflight
        assert 0 <= workload.own_inflight <= workload.inflight
    for request in requests:
        workload.end(request)

    assert (workload.inflight, workload.decoding, workload.pending_tokens) == (0, 0, 0)
    assert (workload.own_inflight, workload.own_decoding) == (0, 0)
    assert (workload.promised_s(now), workload.kv_blocks) == (0.0, 0.0)
