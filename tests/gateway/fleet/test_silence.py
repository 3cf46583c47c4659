"""How long a server has kept requests waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.silence import Silence


def test_only_waiting_counts() -> None:
    """Nobody waits: a server that is idle is not silent."""
    silence = Silence()
    silence.sent(10.0)

    assert silence.seconds(15.0) == 5.0
    silence.answered(10.0)
    silence.heard(15.0)
    assert silence.seconds(1000.0) == 0.0


def test_a_byte_to_anybody_ends_it() -> None:
    """Others are streamed to: that one request waits longer is the engine's queue."""
    silence = Silence()
    silence.sent(0.0)
    silence.heard(50.0)

    assert silence.seconds(60.0) == 10.0


def test_the_first_of_several_counts() -> None:
    """Requests that come while others wait do not begin it anew."""
    silence = Silence()
    for second in range(5):
        silence.sent(float(second))
    silence.left(3.0, 5.0)

    assert silence.seconds(10.0) == 10.0
    assert silence.waiting == 4


def test_it_grows_over_clients_that_give_up() -> None:
    """Three that left after 30 seconds each, with pauses between: 90 seconds of silence."""
    silence = Silence()
    for began_s in (0.0, 100.0, 200.0):
        silence.sent(began_s)
        silence.left(began_s, began_s + 30)

    assert silence.seconds(300.0) == 90.0


def test_those_that_leave_together_are_one_silence() -> None:
    """Time counts once, however many waited through it."""
    silence = Silence()
    for sent_s in (0.0, 0.0, 10.0, 20.0):
        silence.sent(sent_s)
    for sent_s, left_s in ((0.0, 20.0), (10.0, 30.0), (0.0, 30.0), (20.0, 40.0)):
        silence.left(sent_s, left_s)

    assert silence.seconds(100.0) == 40.0
    assert silence.waiting == 0


def test_the_wait_of_what_was_answered_is_no_silence() -> None:
    """One refusal after another, half a second each: who waits after that has waited for as long as it has."""
    silence = Silence()
    for second in range(700):
        silence.sent(float(second))
        silence.answered(float(second))
    silence.sent(700.0)

    assert silence.seconds(700.5) == 0.5


def test_who_waits_beside_what_was_answered_is_counted_from_its_own_beginning() -> None:
    """Whichever of them came first; also where there is never a moment in which nobody waits."""
    first, second = Silence(), Silence()
    first.sent(0.0)
    first.sent(50.0)
    first.answered(0.0)
    second.sent(0.0)
    second.sent(50.0)
    second.answered(50.0)

    assert (first.seconds(60.0), second.seconds(60.0)) == (10.0, 60.0)

    overlapping = Silence()
    for sent_s in range(100):
        overlapping.sent(float(sent_s))
        if sent_s:
            overlapping.answered(sent_s - 1.0)
    assert overlapping.seconds(100.0) == 1.0


def test_one_that_hangs_is_not_hidden_by_those_that_leave() -> None:
    """A second each, beside one that waits all the time; and when that one has left, too."""
    silence = Silence()
    silence.sent(0.0)
    for second in range(1, 60):
        silence.sent(float(second))
        silence.left(float(second), second + 0.1)
    waiting = silence.seconds(60.0)
    silence.left(0.0, 60.0)

    assert (waiting, silence.seconds(60.0)) == (60.0, 60.0)


@given(st.lists(st.tuples(st.sampled_from(["sent", "answered", "left", "heard", "pass"]), st.integers(0, 5))))
def test_it_is_never_more_than_the_time_that_somebody_waited_in_vain(steps: list[tuple[str, int]]) -> None:
    """Measured second by second; and never less than the wait of the one that waits longest."""
    silence, now, waiting, gone = Silence(), 0, list[int](), set[int]()
    heard_s = 0
    for step, number in steps:
        if step == "pass":
            now += number
        elif step == "sent":
            silence.sent(float(now))
            waiting.append(now)
        elif step == "heard":
            silence.heard(float(now))
            heard_s = now
            gone.clear()
        elif waiting:
            sent_s = waiting.pop(number % len(waiting))
            if step == "left":
                silence.left(float(sent_s), float(now))
                gone |= set(range(max(sent_s, heard_s), now))
            else:
                silence.answered(float(sent_s))
        in_vain = gone | {second for sent_s in waiting for second in range(max(sent_s, heard_s), now)}
        longest = max((now - max(sent_s, heard_s) for sent_s in waiting), default=0)
        assert longest <= silence.seconds(float(now)) <= len(in_vain)
        assert silence.waiting == len(waiting)


def test_an_engine_that_works_is_excused_for_a_while() -> None:
    """Its counters grow: a plain answer may take ten minutes, and no more."""
    silence = Silence()
    silence.sent(0.0)
    for second in range(2, 700, 2):
        silence.excused(float(second))

    assert silence.seconds(600.0) <= 0.0
    assert silence.seconds(700.0) == 100.0
    silence.heard(700.0)
    silence.excused(720.0)
    assert silence.seconds(721.0) == 1.0
