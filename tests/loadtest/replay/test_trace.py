"""Trace: parts of it."""

from __future__ import annotations

from itertools import pairwise

from loadtest.replay.trace import Session, Trace, Turn


def open_trace(requests: int) -> Trace:
    return Trace("open", 512, [Session(f"s{n}", 2.0 * n, (Turn(100 + n, 1, ()),)) for n in range(requests)])


def closed_trace(sessions: int, turns: int = 3) -> Trace:
    one = (Turn(10, 1, ()),) * turns
    return Trace("closed", 512, [Session(f"s{n}", float(n), one) for n in range(sessions)])


def keys(trace: Trace) -> list[str]:
    return [session.key for session in trace.sessions]


def begins(trace: Trace) -> list[float]:
    return [session.begins_s for session in trace.sessions]


def test_first_cuts_the_last_session_so_that_requests_are_exact() -> None:
    """Four requests of sessions with three: one whole session, and one turn of the next."""
    part = closed_trace(5).first(4)
    assert part.requests == 4
    assert [len(session.turns) for session in part.sessions] == [3, 1]


def test_first_of_more_than_there_are_is_all() -> None:
    """There is no more than there is."""
    assert closed_trace(2).first(100).requests == 6
    assert open_trace(0).first(3).requests == 0


def test_an_open_sample_is_a_stretch_that_goes_on_with_the_beginning() -> None:
    """Every seed starts elsewhere; times begin at 0 and go on evenly over the end."""
    trace = open_trace(10)
    assert keys(trace.sample(3, 0)) == ["s0", "s1", "s2"]
    turned = trace.sample(10, 1)
    assert keys(turned) == ["s6", "s7", "s8", "s9", "s0", "s1", "s2", "s3", "s4", "s5"]
    assert begins(turned) == [2.0 * n for n in range(10)]


def test_seeds_sample_different_requests() -> None:
    """Ten seeds of a tenth each have most of a trace between them."""
    trace = open_trace(1000)
    seen = {key for seed in range(10) for key in keys(trace.sample(100, seed))}
    assert len(seen) > 800


def test_a_closed_sample_draws_whole_sessions() -> None:
    """Any of them, in any order, at the times at which sessions began; the same for the same seed."""
    trace = closed_trace(50)
    sample = trace.sample(30, 7)
    assert sample == trace.sample(30, 7)
    assert len(set(keys(sample))) == 10
    assert keys(sample) != keys(trace.sample(30, 8))
    assert begins(sample) == [float(n) for n in range(10)]
    assert all(sooner <= later for sooner, later in pairwise(begins(sample)))


def test_of_an_empty_trace_a_sample_is_empty() -> None:
    """Nothing to divide by."""
    assert open_trace(0).sample(5, 3).requests == 0
