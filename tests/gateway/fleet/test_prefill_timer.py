"""Spans of prefill are timed whole: no prompt's seconds count for another."""

from __future__ import annotations

import pytest

from gateway.fleet.inflight import InFlight
from gateway.fleet.prefill_sample import PrefillSample, PrefillWork
from gateway.fleet.prefill_timer import PrefillTimer


def _request(at: float = 0.0, tokens: float = 100.0, *, known: bool = True) -> InFlight:
    work = PrefillWork(tokens, 0.0, 1.0, 0.0, 0.0) if known else None
    return InFlight(1.0, 1.0, 100, 2.0, True, at, work=work)


def _first_bytes(timer: PrefillTimer, waiting: list[InFlight], *ends: tuple[InFlight, float]) -> list[PrefillSample]:
    """The samples of these requests, whose first bytes come then."""
    samples = []
    for request, now in ends:
        oldest = waiting[0]
        waiting.remove(request)
        samples.append(timer.first_byte(request, oldest, decoding=3, others_wait=bool(waiting), now=now))
    return [sample for sample in samples if sample is not None]


def test_one_after_the_other_each_is_timed_from_the_end_of_the_one_before() -> None:
    """The last two together, since nobody waits behind the last: their sums say the same."""
    first, second, third = requests = [_request(tokens=n) for n in (100.0, 200.0, 400.0)]
    told = _first_bytes(PrefillTimer(), requests, (first, 1.0), (second, 3.0), (third, 7.0))

    assert [(s.actual_s, s.tokens, s.steps, s.decoding) for s in told] == [(1.0, 100.0, 1, 3), (6.0, 600.0, 2, 6)]


def test_an_idle_replica_tells_at_once() -> None:
    """From the dispatch on, however long ago the last one was."""
    timer = PrefillTimer()
    first, later = _request(), _request(at=50.0)
    _first_bytes(timer, [first], (first, 1.0))
    (sample,) = _first_bytes(timer, [later], (later, 50.5))

    assert sample.actual_s == pytest.approx(0.5)
    assert sample.tokens == 100.0


def test_first_bytes_of_one_step_belong_together() -> None:
    """Three small prompts in one step take it together: none of them took all of it, none nothing."""
    first, second, third, late = requests = [_request() for _ in range(4)]
    told = _first_bytes(PrefillTimer(), requests, (first, 1.0), (second, 1.001), (third, 1.002), (late, 2.0))

    assert [(round(s.actual_s, 3), s.tokens, s.steps, s.decoding) for s in told] == [(2.0, 400.0, 2, 6)]


def test_who_overtakes_counts_with_the_oldest() -> None:
    """Part of the oldest prompt was computed in its time: neither can be timed alone."""
    oldest, small = requests = [_request(tokens=1000.0), _request(tokens=10.0)]
    told = _first_bytes(PrefillTimer(), requests, (small, 1.0), (oldest, 1.5))

    assert [(s.actual_s, s.tokens) for s in told] == [(1.5, 1010.0)]


def test_what_is_not_known_spoils_its_span_and_no_other() -> None:
    """A prompt whose tokens nobody counted takes time, too."""
    first, unknown, third = requests = [_request(), _request(known=False), _request()]
    told = _first_bytes(PrefillTimer(), requests, (first, 1.0), (unknown, 5.0), (third, 7.0))

    assert [(s.actual_s, s.tokens) for s in told] == [(1.0, 100.0), (2.0, 100.0)]


def test_who_overtakes_the_unknown_is_in_no_sample() -> None:
    """The unknown one's end was not seen either: when it was, and who waited for it, nobody knows."""
    timer = PrefillTimer()
    unknown, overtaker, later = _request(known=False), _request(), _request(at=5.0)
    timer.first_byte(overtaker, unknown, decoding=0, others_wait=True, now=1.0)

    assert _first_bytes(timer, [later], (later, 6.0)) == []


def test_who_shares_a_step_with_the_unknown_is_no_sample() -> None:
    """Whichever of them came first."""
    for known in ((True, False), (False, True)):
        first, second = requests = [_request(known=is_known) for is_known in known]

        assert _first_bytes(PrefillTimer(), requests, (first, 1.0), (second, 1.001)) == []


def test_behind_one_that_was_given_up_nothing_is_timed() -> None:
    """Nobody knows when it was left; who is sent later is timed again."""
    timer = PrefillTimer()
    behind, later = _request(), _request(at=9.0)
    timer.gone(others_wait=True)

    assert _first_bytes(timer, [behind], (behind, 3.0)) == []
    assert len(_first_bytes(timer, [later], (later, 9.5))) == 1


def test_one_that_was_given_up_alone_leaves_nothing_behind() -> None:
    """The next one finds an idle replica."""
    timer = PrefillTimer()
    given_up, overtaker, later = _request(), _request(), _request(at=5.0)
    timer.first_byte(overtaker, given_up, decoding=0, others_wait=True, now=1.0)
    timer.gone(others_wait=False)
    (sample,) = _first_bytes(timer, [later], (later, 6.0))

    assert (sample.actual_s, sample.tokens) == (1.0, 100.0)


def test_behind_an_unseen_end_nothing_is_timed() -> None:
    """Until the moment at which it is estimated to have been."""
    timer = PrefillTimer()
    timer.unseen(2.0)
    behind, later = _request(at=1.0), _request(at=3.0)

    assert _first_bytes(timer, [behind], (behind, 2.5)) == []
    assert len(_first_bytes(timer, [later], (later, 4.0))) == 1
