"""Load levels: time axes scaled to what a fleet can do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.replay import generator, mooncake
from loadtest.replay.load_level import at_load, bound, grain_s, shared_lru
from loadtest.replay.scenario import Change, EngineOptions, Scenario
from loadtest.replay.trace import Session, Trace, Turn
from loadtest.replica.scheduler import Speeds
from tests.loadtest.replay import public_traces

#: A token of prefill takes 1 ms, whatever its place; one of output as long, and 1 us for each token of its context.
SPEEDS = Speeds(prefill_tokens_per_s=1000.0, attention_tokens=1e12, sequence_s=0.001, context_token_s=1e-6)
FLEET = Scenario(replicas=2, engine=EngineOptions(l0_blocks=100, speeds=SPEEDS), load=0.5)


def requests(*turns: Turn, step_s: float = 1.0) -> Trace:
    return Trace("t", 100, [Session(f"s{n}", n * step_s, (turn,)) for n, turn in enumerate(turns)])


def span_s(trace: Trace) -> float:
    return trace.sessions[-1].begins_s - trace.sessions[0].begins_s


def test_the_span_is_work_over_capacity_and_load() -> None:
    """Prefill of 1,000 + 500 + 1,000 tokens, and 100 tokens decoded at contexts of 1,050 once: 2.5 + 0.205 s."""
    trace = requests(
        Turn(1000, 100, range(10)), Turn(1000, 0, [*range(5), *range(20, 25)]), Turn(1000, 0, range(30, 40))
    )
    assert span_s(at_load(trace, FLEET, 1)) == pytest.approx(2.705 / (2 * 0.5))
    assert span_s(at_load(trace, replace(FLEET, load=0.25), 1)) == pytest.approx(2.705 / (2 * 0.25))
    assert span_s(at_load(trace, replace(FLEET, replicas=4), 1)) == pytest.approx(2.705 / (4 * 0.5))


def test_work_counts_what_a_shared_cache_of_the_fleet_s_size_would_not_find() -> None:
    """Two prompts of ten blocks in turn: if two replicas have room for both, the second round costs 100 tokens each."""
    one, other = Turn(1000, 0, range(10)), Turn(1000, 0, range(10, 20))
    trace = requests(one, other, one, other)
    enough = replace(FLEET, engine=EngineOptions(l0_blocks=10, speeds=SPEEDS))
    assert span_s(at_load(trace, enough, 1)) == pytest.approx(2.2)
    small = replace(FLEET, engine=EngineOptions(l0_blocks=5, speeds=SPEEDS))
    assert span_s(at_load(trace, small, 1)) == pytest.approx(4.0)


def test_capacity_is_the_sum_of_speeds_while_replicas_are_there() -> None:
    """One at half speed; of the other two one joins at a quarter of the time, one leaves at the half."""
    trace = requests(Turn(1000, 0, range(10)), Turn(1000, 0, range(10, 20)))
    changes = (Change(0.25, 1, joins=True), Change(0.5, 2, joins=False))
    fleet = replace(FLEET, replicas=3, speeds=(0.5,), changes=changes, load=1.0)
    assert span_s(at_load(trace, fleet, 1)) == pytest.approx(2.0 / (0.5 + 0.75 + 0.5))


def test_a_load_of_nothing_is_refused_and_an_empty_trace_stays() -> None:
    """Its span would be infinite."""
    with pytest.raises(ValueError, match="above 0"):
        at_load(requests(Turn(10, 1, ())), replace(FLEET, load=0.0), 1)
    with pytest.raises(ValueError, match="on 0 replicas"):
        at_load(requests(Turn(10, 1, ())), replace(FLEET, replicas=0), 1)
    assert at_load(requests(), FLEET, 1).requests == 0
    assert at_load(requests(Turn(10, 1, ())), FLEET, 1).sessions[0].begins_s == 0.0


def test_times_of_a_coarse_clock_are_spread_over_its_grain() -> None:
    """Ten at a time every 3 s: even gaps then, different ones for each seed, and nobody leaves his step."""
    sessions = [Session(f"{n}", n // 10 * 3.0, (Turn(50, 1, ()),)) for n in range(200)]
    trace = Trace("t", 100, sessions)
    assert grain_s([session.begins_s for session in sessions]) == 3.0
    one, other = at_load(trace, FLEET, 1), at_load(trace, FLEET, 2)
    assert one == at_load(trace, FLEET, 1)
    times = [session.begins_s for session in one.sessions]
    assert len(set(times)) == 200
    assert times != [session.begins_s for session in other.sessions]
    for step in range(0, 200, 10):
        assert {int(session.key) // 10 for session in one.sessions[step : step + 10]} == {step // 10}


def test_times_that_are_the_requests_own_only_scale() -> None:
    """Gaps keep their proportions."""
    trace = Trace("t", 100, [Session("a", at_s, (Turn(50, 1, ()),)) for at_s in (5.0, 6.0, 9.0)])
    scaled = at_load(trace, FLEET, 1)
    first, second, third = (session.begins_s for session in scaled.sessions)
    assert first == 0.0
    assert third / second == pytest.approx(4.0)
    assert grain_s([5.0, 6.0, 6.0, 9.0]) == 0.0


def test_requests_at_one_single_moment_come_at_random() -> None:
    """Else no load could be made of them."""
    trace = requests(*[Turn(50, 1, ())] * 20, step_s=0.0)
    times = [session.begins_s for session in at_load(trace, FLEET, 1).sessions]
    assert len(set(times)) == 20


def test_closed_loops_begin_in_random_order_and_keep_their_think_times() -> None:
    """Many short sessions: the work of a cache that forgets nothing over the span in which they begin."""
    turns = (Turn(1000, 0, range(10)), Turn(1100, 0, range(11), 0.1))
    sessions = [Session(f"{n}", float(n), turns) for n in range(1000)]
    fleet = replace(FLEET, engine=EngineOptions(l0_blocks=1, speeds=SPEEDS))
    one = at_load(Trace("t", 100, sessions), fleet, 1)
    assert span_s(one) == pytest.approx(1.0 + 0.1 * 999 + 0.1 * 1000, rel=0.2)
    assert one.notes == ()
    assert [session.key for session in one.sessions] != [session.key for session in sessions]
    assert one.sessions[0].turns == turns
    gaps = [later.begins_s - sooner.begins_s for sooner, later in pairwise(one.sessions)]
    assert min(gaps) >= 0
    assert max(gaps) > 2 * sum(gaps) / len(gaps)


def test_a_closed_loop_too_small_for_the_load_says_so() -> None:
    """Two sessions keep two replicas at half of their work for a second of the ten that they last."""
    turns = (Turn(1000, 0, range(10)), Turn(1100, 0, range(11), 10.0))
    trace = Trace("t", 100, [Session("a", 0.0, turns), Session("b", 1.0, turns)])
    assert at_load(trace, FLEET, 1).notes == ("too few sessions for a load of 0.5: about 0.04",)


def test_the_bound_counts_full_blocks_that_came_before() -> None:
    """5 of 10 blocks of the second prompt, 9 of 10 of the third, whose last token must be computed."""
    trace = requests(Turn(1000, 1, range(10)), Turn(1000, 1, [*range(5), *range(20, 25)]), Turn(1000, 1, range(10)))
    assert bound(trace) == pytest.approx(1400 / 3000)
    assert shared_lru(trace, 5) == pytest.approx(1000 / 3000)
    assert bound(requests()) == 0.0


@given(
    st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 3)), min_size=2, max_size=30),
    st.floats(0.1, 2.0),
    st.integers(0, 5),
)
def test_whatever_is_asked_stays_the_same_in_ascending_time(
    prompts: list[tuple[int, int]], load: float, seed: int
) -> None:
    """Only times change."""
    turns = [Turn(tokens, 1, [1000 * kind + n for n in range(tokens // 100)]) for tokens, kind in prompts]
    trace = requests(*turns)
    scaled = at_load(trace, replace(FLEET, load=load), seed)
    assert sorted(session.key for session in scaled.sessions) == sorted(session.key for session in trace.sessions)
    times = [session.begins_s for session in scaled.sessions]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert bound(trace) <= 1.0


def test_the_published_conversations_have_a_known_bound_and_grain() -> None:
    """What their authors' 3-s steps and a cache that forgets nothing give."""
    trace = mooncake.read(public_traces.path("conversation.jsonl"))
    assert grain_s([session.begins_s for session in trace.sessions]) == pytest.approx(3.0, abs=0.002)
    assert bound(trace) == pytest.approx(0.355, abs=0.001)


def test_sessions_of_one_turn_are_told_from_closed_loops() -> None:
    """A generated closed loop begins at random, whatever its own times."""
    trace = generator.generate("agentic", requests=200, seed=1)
    assert {s.key for s in at_load(trace, FLEET, 1).sessions} == {s.key for s in trace.sessions}
